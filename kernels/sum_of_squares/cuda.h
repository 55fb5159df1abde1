// Sums of squares on GPUs: the contract of op.h to the bit, blocks' trees included. What is added by atomics are
// integers, whose sum knows no order.
//
// The surprise: digits are left uncarried, so that a sum over many tensors is one launch for each
// kSquaredTensorsAtOnce. Each block of 1,024 elements adds less than 2^32 to a digit, which holds 63 bits: 2^31
// blocks, 2.2 · 10^12 elements, may meet in one sum, those of other ranks included, before roundExactSum moves the
// carries.
#ifndef HYC_KERNELS_SUM_OF_SQUARES_CUDA_H_
#define HYC_KERNELS_SUM_OF_SQUARES_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/sum_of_squares/op.h"

namespace hyc::kernels::cuda {

constexpr int kSquaredTensorsAtOnce = 64;

// n elements, of float, Bf16 or F16.
template <typename T>
struct SquaredTensor {
  const T *x;
  int64_t n;
};

// The sum over all elements of all tensors.
template <typename T>
void sumOfSquares(Stream stream, const SquaredTensor<T> *tensors, int count, int64_t *exactSum, WriteMode mode);

template <typename T>
void sumOfSquares(Stream stream, const T *x, int64_t n, int64_t *exactSum, WriteMode mode) {
  const SquaredTensor<T> tensor{x, n};
  sumOfSquares<T>(stream, &tensor, 1, exactSum, mode);
}

// *rounded = the f64 nearest to the exact sum.
void roundExactSum(Stream stream, const int64_t *exactSum, double *rounded);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_SUM_OF_SQUARES_CUDA_H_
