// Exact sums: a value touches three digits, carries move once a batch.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/exact_sum/op.h"

namespace hyc::kernels {
namespace {

constexpr int64_t kValuesAtOnce = int64_t{1} << 30;  // a digit of 63 bits holds as many terms below 2^32

void moveCarries(int64_t *limbs) {
  for (int i = 0; i + 1 < kExactSumDigits; ++i) {
    limbs[i + 1] += limbs[i] >> 32;
    limbs[i] &= 0xffffffff;
  }
}

void addOne(int64_t *limbs, double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint64_t exponent = bits >> 52 & 2047, fraction = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 2047) {
    ++limbs[fraction ? kExactSumNans : kExactSumInfinities];
    return;
  }
  const uint64_t significand = exponent ? fraction | uint64_t{1} << 52 : fraction;
  const uint64_t position = exponent ? exponent - 1 : 0;  // of the lowest bit
  const unsigned __int128 shifted = static_cast<unsigned __int128>(significand) << position % 32;
  int64_t *digit = limbs + position / 32;
  digit[0] += static_cast<uint32_t>(shifted);
  digit[1] += static_cast<uint32_t>(shifted >> 32);
  digit[2] += static_cast<uint32_t>(shifted >> 64);
}

}  // namespace

void addExact(int64_t *limbs, const double *values, int64_t count) {
  for (int64_t done = 0; done < count; done += kValuesAtOnce) {
    const int64_t end = std::min(count, done + kValuesAtOnce);
    for (int64_t i = done; i < end; ++i) addOne(limbs, values[i]);
    moveCarries(limbs);
  }
}

double roundExactSum(const int64_t *limbs) {
  if (limbs[kExactSumNans]) return std::numeric_limits<double>::quiet_NaN();
  if (limbs[kExactSumInfinities]) return std::numeric_limits<double>::infinity();
  int64_t digits[kExactSumDigits];
  std::copy(limbs, limbs + kExactSumDigits, digits);
  moveCarries(digits);
  int top = kExactSumDigits - 1;
  while (top > 0 && digits[top] == 0) --top;
  if (digits[top] == 0) return 0;
  const int highest = 32 * top + 63 - __builtin_clzll(static_cast<uint64_t>(digits[top]));
  const auto bit = [&](int position) -> uint64_t {
    if (position < 0) return 0;
    const int digit = std::min(position / 32, top);
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
