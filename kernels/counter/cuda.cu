// One launch that adds 1 to each of a few counters.
#include "kernels/counter/cuda.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda {
namespace {

// The host reads them meanwhile: each addition is one write.
__global__ void countKernel(Counters counters) {
  for (int i = 0; i < counters.count; ++i) {
    volatile uint64_t *const at = counters.at[i];
    *at = *at + 1;
  }
}

}  // namespace

void countUp(Stream stream, const Counters &counters) {
  kernel(countKernel).launch(stream, {dim3(1), dim3(1)}, counters);
}

}  // namespace hyc::kernels::cuda
