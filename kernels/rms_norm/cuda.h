// Normalisation by the root mean square on GPUs: the contract of op.h. Sums over a row have a tree that depends on the
// shape and on whether rows can be read in packs of 16 bytes; sums over rows go by NormRowBlocks.
#ifndef HYC_KERNELS_RMS_NORM_CUDA_H_
#define HYC_KERNELS_RMS_NORM_CUDA_H_

#include "kernels/cuda/row_blocks.h"
#include "kernels/cuda/stream.h"
#include "kernels/rms_norm/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void rmsNormForward(Stream stream, const RmsNormDesc &desc, const T *x, const float *scale, T *y, float *rstd);

// workspace: rowSumsBytes of one vector.
template <typename T>
void rmsNormBackward(Stream stream, const RmsNormDesc &desc, const T *x, const float *scale, const float *rstd,
                     const T *dy, T *dx, float *dscale, WriteMode mode, void *workspace);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_RMS_NORM_CUDA_H_
