// Running sums on GPUs: the contract of op.h, the bits included.
#ifndef HYC_KERNELS_CUMSUM_CUDA_H_
#define HYC_KERNELS_CUMSUM_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/cumsum/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void cumSum(Stream stream, const CumSumDesc &desc, const T *x, T *y);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUMSUM_CUDA_H_
