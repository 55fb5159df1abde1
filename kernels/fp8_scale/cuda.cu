// Delayed scaling on GPUs.
#include "kernels/cuda/launch.h"
#include "kernels/fp8_scale/cuda.h"

namespace hyc::kernels::cuda {
namespace {

__global__ void updateFp8ScaleKernel(float largest, int64_t steps, const float *amax, float *scale, float *inverse,
                                     float *history) {
  kernels::updateFp8Scale(largest, steps, *amax, scale, inverse, history);
}

__global__ void accumulateMaxKernel(float *to, const float *from, WriteMode mode) {
  const float now = *to, value = *from;
  *to = mode == WriteMode::kOverwrite || !(now > value || now != now) ? value : now;
}

Grid oneThread() { return {dim3(1), dim3(1)}; }

}  // namespace

void updateFp8Scale(Stream stream, float largest, int64_t steps, const float *amax, float *scale, float *inverse,
                    float *history) {
  kernel(updateFp8ScaleKernel).launch(stream, oneThread(), largest, steps, amax, scale, inverse, history);
}

void accumulateMax(Stream stream, float *to, const float *from, WriteMode mode) {
  kernel(accumulateMaxKernel).launch(stream, oneThread(), to, from, mode);
}

}  // namespace hyc::kernels::cuda
