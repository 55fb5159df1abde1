// Dinic's algorithm. Paths are followed without recursion: models are thousands of ops deep.
#include "hyc/Analysis/MinimumCut.h"

#include <algorithm>
#include <queue>

using namespace hyc;

int FlowNetwork::addNode() {
  edgesOf.emplace_back();
  return static_cast<int>(edgesOf.size()) - 1;
}

void FlowNetwork::addEdge(int from, int to, Capacity capacity) {
  edgesOf[from].push_back(static_cast<int>(edges.size()));
  edges.push_back({to, capacity});
  edgesOf[to].push_back(static_cast<int>(edges.size()));
  edges.push_back({from, 0});
}

/// Distances from the source over edges that still have capacity; whether the sink is reached.
bool FlowNetwork::findLevels(int source, int sink) {
  level.assign(edgesOf.size(), -1);
  level[source] = 0;
  std::queue<int> frontier({source});
  while (!frontier.empty()) {
    int node = frontier.front();
    frontier.pop();
    for (int index : edgesOf[node])
      if (const Edge &edge = edges[index]; edge.left > 0 && level[edge.to] < 0) {
        level[edge.to] = level[node] + 1;
        frontier.push(edge.to);
      }
  }
  return level[sink] >= 0;
}

/// Sends what fits along one shortest path; 0 if there is none left.
FlowNetwork::Capacity FlowNetwork::augment(int source, int sink) {
  std::vector<int> path; // edges
  int node = source;
  while (node != sink) {
    bool advanced = false;
    for (size_t &next = nextEdge[node]; next < edgesOf[node].size(); ++next) {
      int index = edgesOf[node][next];
      if (edges[index].left > 0 && level[edges[index].to] == level[node] + 1) {
        path.push_back(index);
        node = edges[index].to;
        advanced = true;
        break;
      }
    }
    if (advanced)
      continue;
    if (path.empty())
      return 0;
    // A dead end: its predecessor goes on with its next edge.
    node = edges[path.back() ^ 1].to;
    ++nextEdge[node];
    path.pop_back();
  }
  Capacity flow = kInfinite;
  for (int index : path)
    flow = std::min(flow, edges[index].left);
  for (int index : path) {
    edges[index].left -= flow;
    edges[index ^ 1].left += flow;
  }
  return flow;
}

std::vector<bool> FlowNetwork::cut(int source, int sink) {
  while (findLevels(source, sink)) {
    nextEdge.assign(edgesOf.size(), 0);
    while (augment(source, sink) > 0) {
    }
  }
  std::vector<bool> sourceSide(edgesOf.size());
  for (size_t node = 0; node < edgesOf.size(); ++node)
    sourceSide[node] = level[node] >= 0;
  return sourceSide;
}
