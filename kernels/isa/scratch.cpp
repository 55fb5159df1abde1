// One growing buffer a thread.
#include "kernels/isa/scratch.h"

#include <cstdlib>
#include <memory>

namespace hyc::kernels {

namespace {
struct Release {
  void operator()(float *memory) const { std::free(memory); }
};
}  // namespace

float *threadScratch(int64_t floats) {
  constexpr int64_t kLine = 64;
  thread_local std::unique_ptr<float, Release> scratch;
  thread_local int64_t size = 0;
  if (floats > size) {
    scratch.reset();
    const int64_t bytes = (floats * static_cast<int64_t>(sizeof(float)) + kLine - 1) / kLine * kLine;
    scratch.reset(static_cast<float *>(std::aligned_alloc(kLine, static_cast<size_t>(bytes))));
    size = scratch ? floats : 0;
    if (!scratch) std::abort();  // as an allocation that throws would end here, where nobody catches
  }
  return scratch.get();
}

}  // namespace hyc::kernels
