// Pooling by maximum on GPUs: the contract of op.h.
#ifndef HYC_KERNELS_POOLING_CUDA_H_
#define HYC_KERNELS_POOLING_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/pooling/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void maxPool(Stream stream, const PoolingDesc &desc, const T *x, T *y, int64_t *indices);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_POOLING_CUDA_H_
