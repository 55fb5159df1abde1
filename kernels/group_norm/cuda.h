// Normalisation of groups of channels on GPUs: the contract of op.h, with sums whose trees depend on the shape alone.
#ifndef HYC_KERNELS_GROUP_NORM_CUDA_H_
#define HYC_KERNELS_GROUP_NORM_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/group_norm/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void groupNormForward(Stream stream, const GroupNormDesc &desc, const T *x, const float *scale, const float *bias, T *y,
                      float *mean, float *rstd);

// workspace: [samples, groups, channels, 2], f32.
template <typename T>
void groupNormBackward(Stream stream, const GroupNormDesc &desc, const T *x, const float *scale, const float *mean,
                       const float *rstd, const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode,
                       void *workspace);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_GROUP_NORM_CUDA_H_
