// The arithmetic of an exact sum's digits (op.h), for CPUs and GPUs alike: a value touches three digits, carries move
// once a batch.
#ifndef HYC_KERNELS_EXACT_SUM_DIGITS_H_
#define HYC_KERNELS_EXACT_SUM_DIGITS_H_

#include <cmath>
#include <cstring>

#include "kernels/exact_sum/op.h"
#include "kernels/host_device.h"

namespace hyc::kernels {

HYC_HOST_DEVICE inline void moveCarries(int64_t *limbs) {
  for (int i = 0; i + 1 < kExactSumDigits; ++i) {
    limbs[i + 1] += limbs[i] >> 32;
    limbs[i] &= 0xffffffff;
  }
}

// Calls add(limb, term) for what `value` adds to an exact sum.
template <typename Add>
HYC_HOST_DEVICE inline void splitExact(double value, Add add) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint64_t exponent = bits >> 52 & 2047, fraction = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 2047) return add(fraction ? kExactSumNans : kExactSumInfinities, int64_t{1});
  const uint64_t significand = exponent ? fraction | uint64_t{1} << 52 : fraction;
  const uint64_t position = exponent ? exponent - 1 : 0;  // of the lowest bit
  const int digit = static_cast<int>(position / 32), shift = static_cast<int>(position % 32);
  const uint64_t low = significand << shift, high = shift ? significand >> (64 - shift) : 0;
  add(digit, static_cast<int64_t>(low & 0xffffffff));
  add(digit + 1, static_cast<int64_t>(low >> 32));
  add(digit + 2, static_cast<int64_t>(high));
}

HYC_HOST_DEVICE inline double roundDigits(const int64_t *limbs) {
  if (limbs[kExactSumNans]) return static_cast<double>(__builtin_nanf(""));
  if (limbs[kExactSumInfinities]) return static_cast<double>(__builtin_inff());
  int64_t digits[kExactSumDigits];
  for (int i = 0; i < kExactSumDigits; ++i) digits[i] = limbs[i];
  moveCarries(digits);
  int top = kExactSumDigits - 1;
  while (top > 0 && digits[top] == 0) --top;
  if (digits[top] == 0) return 0;
  int highest = 32 * top + 63;
  while (!(static_cast<uint64_t>(digits[top]) >> (highest - 32 * top) & 1)) --highest;
  const auto bit = [&](int position) -> uint64_t {
    if (position < 0) return 0;
    const int digit = position / 32 < top ? position / 32 : top;
    return static_cast<uint64_t>(digits[digit]) >> (position - 32 * digit) & 1;
  };
  uint64_t significand = 0;
  for (int i = 0; i < 53; ++i) significand = significand << 1 | bit(highest - i);
  const int lowest = highest - 52;
  if (bit(lowest - 1)) {
    bool isTie = true;
    for (int position = lowest - 2; position >= 0 && isTie; --position) isTie = !bit(position);
    significand += !isTie || significand & 1;
  }
  return std::ldexp(static_cast<double>(significand), lowest - 1074);
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_EXACT_SUM_DIGITS_H_
