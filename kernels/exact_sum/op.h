// Exact sums of non-negative f64 values: addition that is associative and commutative, so that no order and no split
// over ranks changes a bit of the total.
//
// A sum is kExactSumLimbs integers. Limb i < 66 is the digit that weighs 2^(32·i − 1074); together they span every f64,
// from the smallest subnormal to the largest sum of many. The last two count NaNs and infinities. The surprise: digits
// may exceed 32 bits, which is what lets ranks add them element by element, as plain i64 (an all_reduce); nothing is
// lost before 2^31 sums have met. (Kulisch's long accumulator, in digits that can wait for their carries.)
#ifndef HYC_KERNELS_EXACT_SUM_OP_H_
#define HYC_KERNELS_EXACT_SUM_OP_H_

#include <cstdint>

namespace hyc::kernels {

constexpr int kExactSumDigits = 66;
constexpr int kExactSumLimbs = kExactSumDigits + 2;
constexpr int kExactSumNans = kExactSumDigits, kExactSumInfinities = kExactSumDigits + 1;

// limbs: [kExactSumLimbs], of an exact sum; values: [count], none negative. Digits are below 2^32 afterwards, but for
// the topmost.
void addExact(int64_t *limbs, const double *values, int64_t count);

// The f64 nearest to the sum, ties to even; NaN if a NaN was added, else infinity if an infinity was.
double roundExactSum(const int64_t *limbs);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_EXACT_SUM_OP_H_
