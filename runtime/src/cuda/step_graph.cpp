// Recording a step's streams into a graph and starting it.
#include "cuda/step_graph.h"

#include <cstring>
#include <string>

#include "cuda/device.h"

namespace hycrt {

StepGraph::~StepGraph() {
  if (executable_) cudaGraphExecDestroy(executable_);
  if (graph_) cudaGraphDestroy(graph_);
  if (memory_) cudaFreeHost(memory_);
}

Status StepGraph::begin(cudaStream_t stream, int64_t uploadBytes) {
  capacity_ = uploadBytes;
  if (capacity_ > 0) {
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaMallocHost(reinterpret_cast<void**>(&memory_), static_cast<size_t>(capacity_)),
                                     "allocating pinned memory"));
  }
  HYCRT_RETURN_IF_ERROR(
      cudaStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a step"));
  isRecording_ = true;
  return {};
}

Status StepGraph::end(cudaStream_t stream) {
  isRecording_ = false;
  const Status ended = cudaStatus(cudaStreamEndCapture(stream, &graph_), "recording a step");
  cudaGetLastError();  // of what could not be recorded; the status says it
  HYCRT_RETURN_IF_ERROR(ended);
  return cudaStatus(cudaGraphInstantiate(&executable_, graph_, 0), "making a graph of a step");
}

Status StepGraph::launch(cudaStream_t stream) {
  if (isRefilling_ && next_ != places_.size()) {
    return internalError("a step wrote " + std::to_string(next_) + " inputs and scalars, the recorded one " +
                         std::to_string(places_.size()));
  }
  isRefilling_ = false;
  return cudaStatus(cudaGraphLaunch(executable_, stream), "starting a step");
}

Status StepGraph::upload(std::byte* to, const std::byte* from, int64_t bytes, cudaStream_t stream) {
  if (isRefilling_) {
    if (next_ == places_.size() || places_[next_].bytes != bytes) {
      return internalError("a step writes other inputs and scalars than the recorded one");
    }
    std::memcpy(memory_ + places_[next_++].offset, from, static_cast<size_t>(bytes));
    return {};
  }
  if (used_ + bytes > capacity_) return internalError("a recorded step writes more than the one before it");
  std::byte* const place = memory_ + used_;
  places_.push_back({used_, bytes});
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::memcpy(place, from, static_cast<size_t>(bytes));
  // What fails while a step is being recorded is told where that ends.
  cudaMemcpyAsync(to, place, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream);
  return {};
}

}  // namespace hycrt
