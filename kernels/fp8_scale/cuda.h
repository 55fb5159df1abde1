// Delayed scaling on GPUs: kernels of one thread; every pointer is device memory.
#ifndef HYC_KERNELS_FP8_SCALE_CUDA_H_
#define HYC_KERNELS_FP8_SCALE_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/fp8_scale/op.h"
#include "kernels/write_mode.h"

namespace hyc::kernels::cuda {

// op.h, in place; `history` has `steps` entries.
void updateFp8Scale(Stream stream, float largest, int64_t steps, const float *amax, float *scale, float *inverse,
                    float *history);

// *to = *from, or the greater of both, NaN if either is.
void accumulateMax(Stream stream, float *to, const float *from, WriteMode mode);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_FP8_SCALE_CUDA_H_
