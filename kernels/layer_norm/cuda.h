// Layer normalisation on GPUs: the contract of op.h. Sums over a row have a tree that depends on the shape and on
// whether rows can be read in packs of 16 bytes; sums over rows go by NormRowBlocks.
#ifndef HYC_KERNELS_LAYER_NORM_CUDA_H_
#define HYC_KERNELS_LAYER_NORM_CUDA_H_

#include "kernels/cuda/row_blocks.h"
#include "kernels/cuda/stream.h"
#include "kernels/layer_norm/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void layerNormForward(Stream stream, const LayerNormDesc &desc, const T *x, const float *scale, const float *bias, T *y,
                      float *mean, float *rstd);

// workspace: rowSumsBytes of two vectors.
template <typename T>
void layerNormBackward(Stream stream, const LayerNormDesc &desc, const T *x, const float *scale, const float *mean,
                       const float *rstd, const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode,
                       void *workspace);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_LAYER_NORM_CUDA_H_
