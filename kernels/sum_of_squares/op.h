// Sum of squares of a flat tensor: one f64 sum per block of 1,024 elements; the blocks' sums are added exactly
// (kernels/exact_sum/op.h).
//
// The surprise: the sum's tree is part of the contract, not of the implementation. A rank that holds some blocks of a
// tensor gives the same block sums as a rank that holds all of them, and exact addition knows no order, so no sharding
// by blocks changes a bit of the norm. Tree of a block: lane l of 16 adds x[l]², x[l + 16]², … in f64 (exact squares);
// then lanes 8, 4, 2 and 1 apart are added. A last, shorter block counts as filled up with zeros.
#ifndef HYC_KERNELS_SUM_OF_SQUARES_OP_H_
#define HYC_KERNELS_SUM_OF_SQUARES_OP_H_

#include <cstdint>

#include "kernels/narrow_float.h"
#include "kernels/write_mode.h"

namespace hyc::kernels {

constexpr int64_t kSumOfSquaresBlock = 1024;
constexpr int64_t kSumOfSquaresLanes = 16;

constexpr int64_t sumOfSquaresBlockCount(int64_t n) { return (n + kSumOfSquaresBlock - 1) / kSumOfSquaresBlock; }

// blockSums: [sumOfSquaresBlockCount(n)]. T: float, Bf16 or F16.
template <typename T>
void sumOfSquaresBlocks(const T *x, int64_t n, double *blockSums);

// The blocks' sums added to an exact sum: exactSum [kExactSumLimbs].
template <typename T>
void sumOfSquares(const T *x, int64_t n, int64_t *exactSum, WriteMode mode);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_SUM_OF_SQUARES_OP_H_
