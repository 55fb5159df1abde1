// The order of the elements of rows on GPUs: the contract of op.h.
#ifndef HYC_KERNELS_ARGSORT_CUDA_H_
#define HYC_KERNELS_ARGSORT_CUDA_H_

#include "kernels/argsort/op.h"
#include "kernels/cuda/stream.h"

namespace hyc::kernels::cuda {

// Without a workspace. Work grows with the square of a row's size.
template <typename T>
void argSort(Stream stream, const ArgSortDesc &desc, const T *x, int64_t *order);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_ARGSORT_CUDA_H_
