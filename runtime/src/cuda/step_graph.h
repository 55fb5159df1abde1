// StepGraph: a step's work on the device, recorded once and started as one thing from then on, so that the device does
// not wait for the host between kernels.
//
// What the host writes for each step (inputs, the learning rate) has a place of its own in pinned memory, from which
// the graph copies it; a later step fills the places in the order in which the recorded one did.
#ifndef HYCRT_SRC_CUDA_STEP_GRAPH_H_
#define HYCRT_SRC_CUDA_STEP_GRAPH_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

class StepGraph {
 public:
  ~StepGraph();

  // From here to end() nothing that is put on `stream` runs; it becomes the graph. uploadBytes: room for what upload()
  // will be given, each rounded up to kAlignment.
  Status begin(cudaStream_t stream, int64_t uploadBytes);
  // An error where something cannot be part of a graph; then nothing has run, and the stream is as before.
  Status end(cudaStream_t stream);

  // The host is about to fill the places for another step, whose launch() runs it. The step before is over.
  void refill() { next_ = 0, isRefilling_ = true; }
  Status launch(cudaStream_t stream);

  bool isRecording() const { return isRecording_; }
  // Whether uploads are this object's: between begin() and end(), and between refill() and launch().
  bool takesUploads() const { return isRecording_ || isRefilling_; }
  Status upload(std::byte* to, const std::byte* from, int64_t bytes, cudaStream_t stream);

  static constexpr int64_t kAlignment = 64;

 private:
  struct Place {
    int64_t offset, bytes;
  };

  std::byte* memory_ = nullptr;  // pinned
  int64_t capacity_ = 0, used_ = 0;
  std::vector<Place> places_;
  size_t next_ = 0;
  bool isRecording_ = false, isRefilling_ = false;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CUDA_STEP_GRAPH_H_
