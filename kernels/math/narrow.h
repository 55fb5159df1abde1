// Functions for results of 16 bits on GPUs, where the last bits of f32 are rounded away.
//
// The contract, weaker than that of math.h: before it is rounded, a result differs from the exact one by less than
// 2^-16 of itself or, where it is a sum that cancels, of the largest term. It is then the 16-bit number of the CPU, or
// at worst in one case of a hundred (bf16), the one beside it. It is the same in every run on GPUs; NaN gives NaN.
// Functions of results in f32 are math.h's, to the bit.
#ifndef HYC_KERNELS_MATH_NARROW_H_
#define HYC_KERNELS_MATH_NARROW_H_

#include <cmath>

#include "kernels/math/math.h"

namespace hyc::kernels::math::narrow {

// 2^x and 1 / x within 2^-22, by the device's units; what is below 2^-126 is 0, which no sum with 1 shows.
#if defined(__CUDA_ARCH__)
__device__ inline float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
HYC_HOST_DEVICE inline float exp2(float x) { return std::exp2(x); }
HYC_HOST_DEVICE inline float reciprocal(float x) { return 1.0f / x; }
#endif

// 1 / (1 + e^−x)
HYC_MATH_INLINE float sigmoid(float x) { return reciprocal(1.0f + exp2(x * -1.44269504f)); }

// x · sigmoid(2u), which is 0.5 · x · (1 + tanh(u)), with u = √(2/π) · (x + 0.044715 · x³). Nothing cancels for
// negative x. exponent(x) = −2u · log2(e).
HYC_MATH_INLINE float geluTanhExponent(float x) { return x * std::fma(x * x, -0.102943240f, -2.30220820f); }
HYC_MATH_INLINE float geluTanh(float x) { return x * reciprocal(1.0f + exp2(geluTanhExponent(x))); }

// With s = sigmoid(2u): the derivative is s + x · 2 · s · (1 − s) · u', and 1 − s is e · s where s = 1 / (1 + e).
HYC_MATH_INLINE float geluTanhGrad(float dy, float x) {
  const float exponent = geluTanhExponent(x);
  const float e = exp2(exponent > 126.0f ? 126.0f : exponent);  // beyond it s is 0, and e may not be infinite
  const float s = reciprocal(1.0f + e), slope = std::fma(x * x, 0.214064479f, 1.59576912f);
  return dy * std::fma(x * slope, s * (e * s), s);
}

}  // namespace hyc::kernels::math::narrow

#endif  // HYC_KERNELS_MATH_NARROW_H_
