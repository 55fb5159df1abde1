// Sum of squares with the tree that op.h fixes, for any scalar type. For float it gives the kernel's bits.
#ifndef HYC_KERNELS_SUM_OF_SQUARES_REFERENCE_H_
#define HYC_KERNELS_SUM_OF_SQUARES_REFERENCE_H_

#include "kernels/description.h"
#include "kernels/exact_sum/reference.h"
#include "kernels/sum_of_squares/op.h"

namespace hyc::kernels::reference {

template <typename T>
double sumOfSquaresOfBlock(const T *x, int64_t n) {
  double lanes[kSumOfSquaresLanes] = {};
  for (int64_t i = 0; i < n; ++i) lanes[i % kSumOfSquaresLanes] += double(x[i]) * double(x[i]);
  for (int64_t apart = kSumOfSquaresLanes / 2; apart > 0; apart /= 2)
    for (int64_t l = 0; l < apart; ++l) lanes[l] += lanes[l + apart];
  return lanes[0];
}

template <typename T>
void sumOfSquaresBlocks(const T *x, int64_t n, double *blockSums) {
  for (int64_t start = 0; start < n; start += kSumOfSquaresBlock) {
    const int64_t length = n - start < kSumOfSquaresBlock ? n - start : kSumOfSquaresBlock;
    blockSums[start / kSumOfSquaresBlock] = sumOfSquaresOfBlock(x + start, length);
  }
}

// Added to what exactSum holds.
template <typename T>
void addSumOfSquares(const T *x, int64_t n, int64_t *exactSum) {
  for (int64_t i = 0; i < n; i += kSumOfSquaresBlock) {
    const double sum = sumOfSquaresOfBlock(x + i, n - i < kSumOfSquaresBlock ? n - i : kSumOfSquaresBlock);
    addExact(exactSum, &sum, 1);
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::sum_of_squares {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("sum_of_squares",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::addSumOfSquares(c.in<T>("x"), c.count({"x"}), c.out<int64_t>("sum"));
                      }),
};

}  // namespace hyc::kernels::executed::sum_of_squares

#endif  // HYC_KERNELS_SUM_OF_SQUARES_REFERENCE_H_
