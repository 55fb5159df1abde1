// exp, log, tanh and erf in f32 for loops that the compiler vectorises: no branches, no tables, no calls.
//
// Loops over these vectorise at -O3 without -ffast-math and give the same bits at any vector width and in scalar code,
// provided that the translation unit is compiled with -ffp-contract=off. The surprise: selections are made on bit
// masks, because a compiler that must respect floating-point traps turns `c ? f(x) : g(x)` back into a branch.
// Largest errors in units in the last place: exp 1.1, log 0.9, tanh 1.4, erf 1.4.
// Results of 16 bits have a weaker contract on GPUs (narrow.h); whatever is kept in f32 is these functions' to the bit.
// NaN gives NaN; infinities, zeros, subnormal arguments and results are as in <cmath>.
#ifndef HYC_KERNELS_MATH_MATH_H_
#define HYC_KERNELS_MATH_MATH_H_

#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

// Always inlined, so that the linker never shares one instruction set's copy with another.
#define HYC_MATH_INLINE HYC_HOST_DEVICE inline __attribute__((always_inline))

namespace hyc::kernels::math {

namespace detail {

HYC_MATH_INLINE uint32_t bitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
HYC_MATH_INLINE float floatOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
HYC_MATH_INLINE float absolute(float x) { return floatOf(bitsOf(x) & 0x7fffffffu); }
// All ones where magnitude < bound, for a magnitude without sign and a positive bound. NaN is not below anything.
HYC_MATH_INLINE uint32_t maskBelow(float magnitude, float bound) {
  return static_cast<uint32_t>(static_cast<int32_t>(bitsOf(magnitude) - bitsOf(bound)) >> 31);
}
HYC_MATH_INLINE float select(uint32_t mask, float ifSet, float ifClear) {
  return floatOf((bitsOf(ifSet) & mask) | (bitsOf(ifClear) & ~mask));
}
HYC_MATH_INLINE float withSignOf(float magnitude, float sign) {
  return floatOf(bitsOf(magnitude) | (bitsOf(sign) & 0x80000000u));
}
HYC_MATH_INLINE float powerOfTwo(int32_t exponent) { return floatOf(static_cast<uint32_t>(exponent + 127) << 23); }

constexpr float kLog2E = 1.44269504f;
// ln 2 in two parts; the high one has few enough bits that its product with an exponent is exact.
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;

}  // namespace detail

// exp(x) = 2^n · exp(r), r = x − n · ln 2 in ±ln 2 / 2; exp(r) = 1 + r + r² · p(r).
HYC_MATH_INLINE float exp(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer, held in the low bits
  // Beyond ±104 the result is 0 or ∞; NaN passes through.
  const float magnitude = detail::absolute(x);
  const uint32_t isNumber = detail::maskBelow(magnitude, detail::floatOf(0x7f800001u));
  const uint32_t isOutside = ~detail::maskBelow(magnitude, 104.0f) & isNumber;
  x = detail::select(isOutside, detail::withSignOf(104.0f, x), x);
  const float shifted = x * detail::kLog2E + kRound;
  const int32_t n = static_cast<int32_t>(detail::bitsOf(shifted) - detail::bitsOf(kRound));
  const float nearest = shifted - kRound;
  const float r = (x - nearest * detail::kLn2High) - nearest * detail::kLn2Low;
  float p = 1.392618181e-3f;
  p = p * r + 8.363177630e-3f;
  p = p * r + 4.166655463e-2f;
  p = p * r + 1.666657700e-1f;
  p = p * r + 0.5f;
  const float result = (p * (r * r) + r) + 1.0f;
  // In two steps, since 2^n itself may be out of range where the result is not.
  const int32_t half = n >> 1;
  return (result * detail::powerOfTwo(half)) * detail::powerOfTwo(n - half);
}

// log(x) = e · ln 2 + log(1 + f), 1 + f in [√½, √2); log(1 + f) = f − f² / 2 + f³ · p(f).
HYC_MATH_INLINE float log(float x) {
  constexpr uint32_t kSqrtHalfBits = 0x3f3504f3u;
  const float infinity = __builtin_inff();
  const uint32_t subnormal = detail::maskBelow(detail::absolute(x), 1.17549435e-38f);
  const float scaled = detail::select(subnormal, x * 8388608.0f, x);
  const uint32_t offset = detail::bitsOf(scaled) - kSqrtHalfBits;
  const float e = static_cast<float>(static_cast<int32_t>(offset) >> 23) + detail::select(subnormal, -23.0f, 0.0f);
  const float f = detail::floatOf((offset & 0x7fffffu) + kSqrtHalfBits) - 1.0f;
  float p = 6.971611471e-2f;
  p = p * f + -1.147973385e-1f;
  p = p * f + 1.168541992e-1f;
  p = p * f + -1.242568733e-1f;
  p = p * f + 1.424905765e-1f;
  p = p * f + -1.666780232e-1f;
  p = p * f + 2.000071575e-1f;
  p = p * f + -2.499999696e-1f;
  p = p * f + 3.333333118e-1f;
  const float square = f * f;
  float tail = p * (square * f) + e * detail::kLn2Low;
  tail = tail - 0.5f * square;
  const float finite = (f + tail) + e * detail::kLn2High;
  // Zero gives −∞; a negative argument NaN; +∞ and NaN stay what they are.
  const uint32_t negative = static_cast<uint32_t>(static_cast<int32_t>(detail::bitsOf(x)) >> 31);
  const uint32_t isZero = detail::maskBelow(detail::absolute(x), detail::floatOf(1));
  const float positive = detail::select(detail::maskBelow(detail::absolute(x), infinity), finite, x);
  return detail::select(isZero, -infinity, detail::select(negative, __builtin_nanf(""), positive));
}

// tanh(x) = x + x³ · p(x²) below 0.625, 1 − 2 / (exp(2x) + 1) above, odd.
HYC_MATH_INLINE float tanh(float x) {
  const float magnitude = detail::absolute(x);
  const float square = x * x;
  float p = -6.096714166e-3f;
  p = p * square + 2.099717900e-2f;
  p = p * square + -5.385090958e-2f;
  p = p * square + 1.333276974e-1f;
  p = p * square + -3.333332894e-1f;
  const float small = magnitude + (magnitude * square) * p;
  const float large = 1.0f - 2.0f / (exp(magnitude + magnitude) + 1.0f);
  return detail::withSignOf(detail::select(detail::maskBelow(magnitude, 0.625f), small, large), x);
}

// erf(x) = x + x · p(x²) below 1, 1 − exp(q(x)) above, where q = log erfc, odd.
HYC_MATH_INLINE float erf(float x) {
  const float magnitude = detail::absolute(x);
  const float square = x * x;
  float p = 7.875875063e-5f;
  p = p * square + -8.016864287e-4f;
  p = p * square + 5.189087423e-3f;
  p = p * square + -2.685421201e-2f;
  p = p * square + 1.128359472e-1f;
  p = p * square + -3.761262667e-1f;
  p = p * square + 1.283791658e-1f;
  const float small = magnitude + magnitude * p;
  const float y = detail::select(detail::maskBelow(magnitude, 4.0f), magnitude, 4.0f);
  float q = 1.637151415e-06f;
  q = q * y + -4.605804269e-05f;
  q = q * y + 5.968056257e-04f;
  q = q * y + -4.759596293e-03f;
  q = q * y + 2.642113601e-02f;
  q = q * y + -1.100800829e-01f;
  q = q * y + -6.318260516e-01f;
  q = q * y + -1.130233435e+00f;
  q = q * y + 3.201380497e-04f;
  const float large = 1.0f - exp(q);
  const uint32_t isNumber = detail::maskBelow(magnitude, detail::floatOf(0x7f800001u));
  const uint32_t useSmall = detail::maskBelow(magnitude, 1.0f) | ~isNumber;  // where NaN comes out as NaN
  return detail::withSignOf(detail::select(useSmall, small, large), x);
}

}  // namespace hyc::kernels::math

#endif  // HYC_KERNELS_MATH_MATH_H_
