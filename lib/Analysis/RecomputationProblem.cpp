// The cut for one price, the search for a price, and the gap between two of them.
#include "hyc/Analysis/RecomputationProblem.h"

#include "hyc/Analysis/MinimumCut.h"

#include <algorithm>
#include <numeric>

using namespace hyc;
using Capacity = FlowNetwork::Capacity;

int RecomputationProblem::addOp(int64_t cost, bool mayRepeat, int group, const std::vector<int> &operands) {
  ops.push_back({cost, mayRepeat, group, operands});
  return static_cast<int>(ops.size()) - 1;
}

int RecomputationProblem::addValue(int op, int64_t bytes) {
  values.push_back({op, bytes});
  return static_cast<int>(values.size()) - 1;
}

Recomputation RecomputationProblem::evaluate(std::vector<bool> repeated) const {
  Recomputation result;
  std::vector<bool> wanted(values.size()), executed(ops.size());
  for (size_t value = 0; value < values.size(); ++value)
    wanted[value] = values[value].isNeeded;
  // Values were added after their op's operands: backwards, everyone who wants a value has been seen before it.
  for (size_t value = values.size(); value-- > 0;) {
    if (!wanted[value])
      continue;
    int op = values[value].op;
    if (op < 0 || !(repeated[op] || values[value].bytes == kNeverSaved)) {
      result.savedBytes += values[value].bytes;
      continue;
    }
    if (executed[op])
      continue;
    executed[op] = true;
    result.cost += ops[op].cost;
    for (int operand : ops[op].operands)
      wanted[operand] = true;
  }
  result.repeated = std::move(repeated);
  return result;
}

Recomputation RecomputationProblem::minimizeWide(__int128 bytePrice, __int128 costPrice) const {
  FlowNetwork network;
  int source = network.addNode(), sink = network.addNode();
  std::vector<int> opNode, valueNode;
  for (const Op &op : ops) {
    opNode.push_back(network.addNode());
    network.addEdge(source, opNode.back(), op.mayRepeat ? op.cost * costPrice : FlowNetwork::kInfinite);
  }
  for (const Value &value : values) {
    valueNode.push_back(network.addNode());
    Capacity price = value.bytes == kNeverSaved ? FlowNetwork::kInfinite : value.bytes * bytePrice;
    network.addEdge(value.op < 0 ? source : opNode[value.op], valueNode.back(), price);
    if (value.isNeeded)
      network.addEdge(valueNode.back(), sink, FlowNetwork::kInfinite);
  }
  for (size_t op = 0; op < ops.size(); ++op)
    for (int operand : ops[op].operands)
      network.addEdge(valueNode[operand], opNode[op], FlowNetwork::kInfinite);
  std::vector<bool> sourceSide = network.cut(source, sink);
  std::vector<bool> repeated(ops.size());
  for (size_t op = 0; op < ops.size(); ++op)
    repeated[op] = !sourceSide[opNode[op]];
  return evaluate(std::move(repeated));
}

Recomputation RecomputationProblem::minimize(int64_t bytePrice, int64_t costPrice) const {
  return minimizeWide(bytePrice, costPrice);
}

Recomputation RecomputationProblem::saveFreely() const {
  __int128 total = 1;
  for (const Value &value : values)
    total += std::max<int64_t>(0, value.bytes);
  return minimizeWide(1, total);
}

Recomputation RecomputationProblem::saveLeast() const {
  __int128 total = 1;
  for (const Op &op : ops)
    total += op.cost;
  return minimizeWide(total, 1);
}

/// Gives whole groups the decisions of `richer`, which costs less, as long as they fit.
void RecomputationProblem::fillGroups(Recomputation &choice, const Recomputation &richer, int64_t bytes) const {
  int groups = 0;
  for (const Op &op : ops)
    groups = std::max(groups, op.group + 1);
  for (int group = 0; group < groups; ++group) {
    std::vector<bool> repeated = choice.repeated;
    for (size_t op = 0; op < ops.size(); ++op)
      if (ops[op].group == group)
        repeated[op] = richer.repeated[op];
    Recomputation candidate = evaluate(std::move(repeated));
    if (candidate.savedBytes <= bytes && candidate.cost < choice.cost)
      choice = std::move(candidate);
  }
}

/// Saves what single ops make instead of executing them again, the costliest first, as long as that fits and helps.
void RecomputationProblem::fillOps(Recomputation &choice, int64_t bytes) const {
  std::vector<size_t> order(ops.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ops[a].cost > ops[b].cost; });
  for (size_t op : order) {
    if (!choice.repeated[op])
      continue;
    std::vector<bool> repeated = choice.repeated;
    repeated[op] = false;
    Recomputation candidate = evaluate(std::move(repeated));
    if (candidate.savedBytes <= bytes && candidate.cost < choice.cost)
      choice = std::move(candidate);
  }
}

Recomputation RecomputationProblem::saveWithin(int64_t bytes) const {
  Recomputation richer = saveFreely();
  if (richer.savedBytes <= bytes)
    return richer;
  Recomputation choice = saveLeast();
  if (choice.savedBytes > bytes)
    return choice;
  // The price at which both are as good: a third choice that is better there lies between them on the hull.
  while (true) {
    __int128 bytePrice = choice.cost - richer.cost, costPrice = richer.savedBytes - choice.savedBytes;
    Recomputation between = minimizeWide(bytePrice, costPrice);
    auto priceOf = [&](const Recomputation &of) { return of.savedBytes * bytePrice + of.cost * costPrice; };
    bool isCorner = priceOf(between) < priceOf(choice), fits = between.savedBytes <= bytes;
    if (isCorner || (fits && between.cost < choice.cost))
      (fits ? choice : richer) = std::move(between);
    if (!isCorner)
      break;
  }
  fillGroups(choice, richer, bytes);
  fillOps(choice, bytes);
  return choice;
}
