// Sums of squares on GPUs: the contract of op.h to the bit, blocks' trees included. What is added by atomics are
// integers, whose sum knows no order.
#ifndef HYC_KERNELS_SUM_OF_SQUARES_CUDA_H_
#define HYC_KERNELS_SUM_OF_SQUARES_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/sum_of_squares/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void sumOfSquares(Stream stream, const T *x, int64_t n, int64_t *exactSum, WriteMode mode);

// *rounded = the f64 nearest to the exact sum.
void roundExactSum(Stream stream, const int64_t *exactSum, double *rounded);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_SUM_OF_SQUARES_CUDA_H_
