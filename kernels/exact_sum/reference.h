// Exact sums bit by bit.
#ifndef HYC_KERNELS_EXACT_SUM_REFERENCE_H_
#define HYC_KERNELS_EXACT_SUM_REFERENCE_H_

#include <cmath>
#include <limits>

#include "kernels/description.h"
#include "kernels/exact_sum/op.h"

namespace hyc::kernels::reference {

inline void addExact(int64_t *limbs, const double *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    double rest = values[i];
    if (std::isnan(rest)) ++limbs[kExactSumNans];
    if (std::isinf(rest)) ++limbs[kExactSumInfinities];
    if (!std::isfinite(rest)) continue;
    while (rest != 0) {
      const int position = std::ilogb(rest) + 1074;
      limbs[position / 32] += int64_t{1} << position % 32;
      rest -= std::ldexp(1.0, position - 1074);
    }
    for (int d = 0; d + 1 < kExactSumDigits; ++d) {
      limbs[d + 1] += limbs[d] >> 32;
      limbs[d] &= 0xffffffff;
    }
  }
}

inline double roundExactSum(const int64_t *limbs) {
  if (limbs[kExactSumNans]) return std::numeric_limits<double>::quiet_NaN();
  if (limbs[kExactSumInfinities]) return std::numeric_limits<double>::infinity();
  // One bit an entry, least first; a total below 2^63 times the largest digit has no more.
  constexpr int kBits = 32 * kExactSumDigits + 64;
  int bits[kBits] = {};
  int64_t carry = 0;
  for (int d = 0; d < kExactSumDigits; ++d) {
    carry += limbs[d];
    for (int b = 0; b < (d + 1 < kExactSumDigits ? 32 : 96); ++b, carry >>= 1) bits[32 * d + b] = carry & 1;
  }
  int highest = kBits - 1;
  while (highest >= 0 && !bits[highest]) --highest;
  double value = 0;
  int position = highest;
  for (; position >= 0 && position > highest - 53; --position)
    if (bits[position]) value += std::ldexp(1.0, position - 1074);
  if (position < 0 || !bits[position]) return value;
  bool above = false;  // half a unit in the last place, or more than that
  for (int p = position - 1; p >= 0; --p) above |= bits[p] != 0;
  const bool isOdd = bits[position + 1] != 0;
  return above || isOdd ? value + std::ldexp(1.0, position + 1 - 1074) : value;
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::exact_sum {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("round_sum",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        *c.out<T>("y") = static_cast<T>(reference::roundExactSum(c.in<int64_t>("sum")));
                      }),
};

}  // namespace hyc::kernels::executed::exact_sum

#endif  // HYC_KERNELS_EXACT_SUM_REFERENCE_H_
