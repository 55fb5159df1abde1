// Numbers of checks, and what the device found.
#include "cuda/index_checks.h"

#include <new>

#include "cuda/device.h"
#include "hycrt/indices.h"

namespace hycrt {

using hyc::kernels::cuda::BadIndex;

IndexChecks::~IndexChecks() {
  if (found_) cudaFreeHost(found_);
}

Status IndexChecks::open() {
  void* memory = nullptr;
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaMallocHost(&memory, sizeof(BadIndex)), "allocating pinned memory"));
  found_ = new (memory) BadIndex;
  return {};
}

void IndexChecks::add(const Context& ctx, const char* op, const int64_t* indices, int64_t count, int64_t bound,
                      int64_t uncounted, cudaStream_t stream) {
  made_.push_back({&ctx, op, count, bound});
  hyc::kernels::cuda::checkIndices(stream, {static_cast<unsigned>(made_.size()), indices, count, bound, uncounted},
                                   found_);
}

void IndexChecks::endRecording(bool failed) {
  if (failed) made_.resize(recorded_);
  recorded_ = made_.size();
}

Status IndexChecks::take() {
  if (found_->check == 0) {
    made_.resize(recorded_);
    return {};
  }
  const Made& made = made_[found_->check - 1];
  return indexError(*made.ctx, made.op, found_->index, found_->place, made.count, made.bound);
}

}  // namespace hycrt
