// Resampling on GPUs: the contract of op.h, without a workspace; all dimensions at once.
#ifndef HYC_KERNELS_RESAMPLE_CUDA_H_
#define HYC_KERNELS_RESAMPLE_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/resample/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void resample(Stream stream, const ResampleDesc &desc, const T *x, const int64_t *firsts, const float *weights, T *y);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_RESAMPLE_CUDA_H_
