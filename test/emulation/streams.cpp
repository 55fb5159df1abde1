// The emulated device's streams: nodes that wait for what they come after, and run as late as is allowed.
#include "streams.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <thread>
#include <unordered_set>

using emulation::Work;

namespace {

struct Node {
  Work work;
  std::vector<std::shared_ptr<Node>> before;
  bool isDone = false;
};
using Clock = std::chrono::steady_clock;

// A node of a graph: those in front of it are earlier ones of the same graph.
struct GraphNode {
  Work work;
  std::vector<size_t> before;
};

struct Recording {
  int number = 0; // from 1 on
  CUstream_st *origin = nullptr;
  std::vector<CUstream_st *> streams;
  std::vector<GraphNode> nodes;
  bool isBroken = false;
};

std::unique_ptr<Recording> recording; // null: nothing is being recorded
int recordings = 0;

} // namespace

struct CUstream_st {
  bool isBlocking = false; // the default stream waits for it
  bool hasKernels = false;
  std::shared_ptr<Node> last;
  bool isRecorded = false;
  std::vector<size_t> leaves; // while it is: what its next node comes after
};
struct CUevent_st {
  std::shared_ptr<Node> node; // null: not recorded outside a graph
  std::shared_ptr<Clock::time_point> at = std::make_shared<Clock::time_point>();
  int recordingNumber = 0; // 0: none
  std::vector<size_t> leaves;
};
struct CUgraph_st {
  std::vector<GraphNode> nodes;
  std::vector<size_t> leaves;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};

namespace {

CUstream_st defaultStream;
std::set<CUstream_st *> streams{&defaultStream};

CUstream_st *streamOf(cudaStream_t stream) { return stream ? stream : &defaultStream; }

// Whether nodes of the stream run as soon as they may.
bool isEarly(const CUstream_st &stream) {
  const char *text = std::getenv("HYC_EMULATION_STREAMS");
  return text && (std::strcmp(text, "early") == 0 || (std::strcmp(text, "copies") == 0 && !stream.hasKernels));
}

// Runs `target` and what it comes after, in that order, a node's own stream first; false where one cannot go on.
bool advance(const std::shared_ptr<Node> &target) {
  if (!target || target->isDone)
    return true;
  std::vector<std::shared_ptr<Node>> path{target};
  while (!path.empty()) {
    const std::shared_ptr<Node> node = path.back();
    const auto open =
        std::find_if(node->before.begin(), node->before.end(), [](const auto &other) { return !other->isDone; });
    if (open != node->before.end()) {
      path.push_back(*open);
      continue;
    }
    if (node->work && !node->work())
      return false;
    node->isDone = true;
    node->work = nullptr;
    node->before.clear();
    path.pop_back();
  }
  return true;
}

void finish(const std::shared_ptr<Node> &target) {
  while (!advance(target)) {
    emulation::advanceAll();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

std::shared_ptr<Node> append(CUstream_st *stream, std::vector<std::shared_ptr<Node>> before, Work work) {
  auto node = std::make_shared<Node>();
  node->work = std::move(work);
  for (std::shared_ptr<Node> &one : before)
    if (one && !one->isDone)
      node->before.push_back(std::move(one));
  stream->last = node;
  if (isEarly(*stream))
    advance(node);
  return node;
}

void record(CUstream_st *stream, Work work) {
  recording->nodes.push_back({std::move(work), stream->leaves});
  stream->leaves = {recording->nodes.size() - 1};
}

void joinRecording(CUstream_st *stream) {
  if (stream->isRecorded)
    return;
  stream->isRecorded = true;
  stream->leaves.clear();
  recording->streams.push_back(stream);
}

// Of what is put on a stream, until the recording ends: nothing more comes of it.
bool isInvalid(const CUstream_st &stream) { return stream.isRecorded && recording->isBroken; }

// Whether every node is in front of what the first stream ends with.
bool isJoined(const Recording &made) {
  std::vector<bool> isReached(made.nodes.size(), false);
  std::vector<size_t> open = made.origin->leaves;
  while (!open.empty()) {
    const size_t i = open.back();
    open.pop_back();
    if (isReached[i])
      continue;
    isReached[i] = true;
    open.insert(open.end(), made.nodes[i].before.begin(), made.nodes[i].before.end());
  }
  return std::find(isReached.begin(), isReached.end(), false) == isReached.end();
}

} // namespace

namespace emulation {

std::recursive_mutex &mutex() {
  static std::recursive_mutex only;
  return only;
}

cudaError_t put(cudaStream_t handle, Work work) {
  const Lock lock(mutex());
  CUstream_st *const stream = streamOf(handle);
  if (isInvalid(*stream))
    return cudaErrorStreamCaptureInvalidated;
  if (stream->isRecorded)
    return record(stream, std::move(work)), cudaSuccess;
  append(stream, {stream->last}, std::move(work));
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return put(stream, [work = std::move(work)] { return work(), true; });
}

void noteKernel(cudaStream_t stream) {
  const Lock lock(mutex());
  streamOf(stream)->hasKernels = true;
}

void advanceAll() {
  const Lock lock(mutex());
  for (CUstream_st *stream : std::set<CUstream_st *>(streams))
    advance(stream->last);
}

void finishAll() {
  const Lock lock(mutex());
  for (CUstream_st *stream : std::set<CUstream_st *>(streams))
    finish(stream->last);
}

void finishDefault() {
  const Lock lock(mutex());
  finish(defaultStream.last);
  for (CUstream_st *stream : streams)
    if (stream->isBlocking)
      finish(stream->last);
}

bool isRecording() {
  const Lock lock(mutex());
  return recording != nullptr;
}

cudaError_t breakRecording() {
  const Lock lock(mutex());
  if (!recording)
    return cudaSuccess;
  recording->isBroken = true;
  return cudaErrorStreamCaptureUnsupported;
}

} // namespace emulation

// ------------------------------------------------------------------------------------------------------------ streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  const emulation::Lock lock(emulation::mutex());
  *stream = new CUstream_st{};
  (*stream)->isBlocking = !(flags & cudaStreamNonBlocking);
  streams.insert(*stream);
  return cudaSuccess;
}
// What was put on it is done all the same.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const emulation::Lock lock(emulation::mutex());
  finish(stream->last);
  streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const emulation::Lock lock(emulation::mutex());
  CUstream_st *const stream = streamOf(handle);
  if (recording)
    return emulation::breakRecording();
  finish(stream->last);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const emulation::Lock lock(emulation::mutex());
  if (streamOf(handle)->isRecorded)
    return emulation::breakRecording();
  if (advance(streamOf(handle)->last))
    return cudaSuccess;
  emulation::advanceAll();
  return cudaErrorNotReady;
}
cudaError_t cudaDeviceSynchronize() {
  const emulation::Lock lock(emulation::mutex());
  if (recording)
    return emulation::breakRecording();
  emulation::finishAll();
  return cudaSuccess;
}

// An event that is part of the graph takes the stream into it; one from outside has no place there.
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  const emulation::Lock lock(emulation::mutex());
  CUstream_st *const stream = streamOf(handle);
  if (event->recordingNumber > 0) {
    if (!recording || event->recordingNumber != recording->number) {
      if (recording)
        recording->isBroken = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (recording->isBroken)
      return cudaErrorStreamCaptureInvalidated;
    joinRecording(stream);
    for (size_t leaf : event->leaves)
      if (std::find(stream->leaves.begin(), stream->leaves.end(), leaf) == stream->leaves.end())
        stream->leaves.push_back(leaf);
    return cudaSuccess;
  }
  if (!event->node)
    return cudaSuccess;
  if (stream->isRecorded) {
    recording->isBroken = true;
    return cudaErrorStreamCaptureIsolation;
  }
  append(stream, {stream->last, event->node}, nullptr);
  return cudaSuccess;
}

// ------------------------------------------------------------------------------------------------------------- events

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
  const emulation::Lock lock(emulation::mutex());
  return *event = new CUevent_st{}, cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const emulation::Lock lock(emulation::mutex());
  return delete event, cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const emulation::Lock lock(emulation::mutex());
  CUstream_st *const stream = streamOf(handle);
  if (isInvalid(*stream))
    return cudaErrorStreamCaptureInvalidated;
  if (stream->isRecorded) {
    event->node = nullptr;
    event->recordingNumber = recording->number;
    event->leaves = stream->leaves;
    return cudaSuccess;
  }
  event->recordingNumber = 0;
  event->node = append(stream, {stream->last}, [at = event->at] { return *at = Clock::now(), true; });
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const emulation::Lock lock(emulation::mutex());
  if (recording)
    return emulation::breakRecording();
  finish(event->node);
  return event->recordingNumber > 0 ? cudaErrorCapturedEvent : cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const emulation::Lock lock(emulation::mutex());
  if (recording)
    return emulation::breakRecording();
  if (event->recordingNumber > 0)
    return cudaErrorCapturedEvent;
  return advance(event->node) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const emulation::Lock lock(emulation::mutex());
  *milliseconds = std::chrono::duration<float, std::milli>(*end->at - *begin->at).count();
  return cudaSuccess;
}

// ------------------------------------------------------------------------------------------------------------- graphs

// HYC_EMULATION_GRAPHS=off: a device on which nothing can be recorded.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const emulation::Lock lock(emulation::mutex());
  recording = std::make_unique<Recording>();
  recording->number = ++recordings;
  recording->origin = stream;
  const char *text = std::getenv("HYC_EMULATION_GRAPHS");
  recording->isBroken = text && std::strcmp(text, "off") == 0;
  joinRecording(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
  const emulation::Lock lock(emulation::mutex());
  const std::unique_ptr<Recording> made = std::move(recording);
  *graph = nullptr;
  for (CUstream_st *stream : made->streams)
    stream->isRecorded = false;
  if (made->isBroken)
    return cudaErrorStreamCaptureUnsupported;
  if (!isJoined(*made))
    return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st{std::move(made->nodes), made->origin->leaves};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long) {
  const emulation::Lock lock(emulation::mutex());
  *executable = new CUgraphExec_st{*graph};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  const emulation::Lock lock(emulation::mutex());
  CUstream_st *const stream = streamOf(handle);
  const CUgraph_st &graph = executable->graph;
  std::vector<std::shared_ptr<Node>> made;
  for (const GraphNode &one : graph.nodes) {
    auto node = std::make_shared<Node>();
    node->work = one.work;
    for (size_t before : one.before)
      node->before.push_back(made[before]);
    if (one.before.empty() && stream->last)
      node->before.push_back(stream->last);
    made.push_back(std::move(node));
  }
  std::vector<std::shared_ptr<Node>> ends{stream->last};
  for (size_t leaf : graph.leaves)
    ends.push_back(made[leaf]);
  append(stream, std::move(ends), nullptr);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const emulation::Lock lock(emulation::mutex());
  return delete graph, cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const emulation::Lock lock(emulation::mutex());
  emulation::finishAll();
  return delete executable, cudaSuccess;
}
