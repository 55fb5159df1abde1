// The narrow floats that tensors are kept in: bf16 (8 bits of exponent, 7 of fraction), IEEE f16 (5 and 10), and of 8
// bits e4m3 and e5m2 (Micikevicius et al. 2022). e5m2 is the upper half of f16; e4m3 has no infinities and one
// magnitude that is NaN, so that its greatest number is 448. What is too large for e4m3 becomes NaN, for the others
// infinity.
//
// They are for memory only: every kernel widens to f32, computes there, and rounds its results once, to nearest with
// ties to even. The surprise: conversions are written in integer operations without branches, so that loops over them
// vectorise, and give the same bits on every instruction set; the CPU's own instructions flush subnormals (bf16) or
// keep the payload of a NaN (f16). Any NaN becomes a quiet one. GPUs convert by one instruction with the same result,
// but for which quiet NaN it is. Loops assign a float and make no object to copy: g++
// keeps an object that is made inside of `omp simd` in memory, and then does not vectorise the loop.
#ifndef HYC_KERNELS_NARROW_FLOAT_H_
#define HYC_KERNELS_NARROW_FLOAT_H_

#include <cstdint>

// Always inlined, so that the linker never shares one instruction set's copy with another.
#define HYC_NARROW_INLINE inline constexpr __attribute__((always_inline))

namespace hyc::kernels {

namespace narrow {

HYC_NARROW_INLINE uint32_t bitsOf(float x) { return __builtin_bit_cast(uint32_t, x); }
HYC_NARROW_INLINE float floatOf(uint32_t bits) { return __builtin_bit_cast(float, bits); }

constexpr uint32_t kInfinity = 0x7f800000u, kSign = 0x80000000u;

#ifdef __CUDA_ARCH__
__device__ inline uint16_t toBf16OnDevice(float x) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ inline uint16_t toF16OnDevice(float x) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ inline float fromF16OnDevice(uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
// Of functions that the compiler may also evaluate: asm is for running code.
#define HYC_NARROW_ON_DEVICE(call) \
  if (!__builtin_is_constant_evaluated()) return call
#else
#define HYC_NARROW_ON_DEVICE(call)
#endif

HYC_NARROW_INLINE uint16_t toBf16(float x) {
  HYC_NARROW_ON_DEVICE(toBf16OnDevice(x));
  const uint32_t bits = bitsOf(x);
  // Half a unit of the kept part, less one where it is even already: the carry rounds.
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  const uint32_t quiet = bits >> 16 | 0x40u;
  return static_cast<uint16_t>((bits & ~kSign) > kInfinity ? quiet : rounded);
}
HYC_NARROW_INLINE float fromBf16(uint16_t bits) { return floatOf(uint32_t{bits} << 16); }

HYC_NARROW_INLINE uint16_t toF16(float x) {
  HYC_NARROW_ON_DEVICE(toF16OnDevice(x));
  constexpr uint32_t kOverflow = (127u + 16) << 23;  // 2^16: from here on, and by rounding a little below, infinity
  constexpr uint32_t kNormal = (127u - 14) << 23;    // 2^-14
  constexpr uint32_t kHalf = 126u << 23;             // 0.5, whose unit in the last place is that of f16's subnormals
  const uint32_t bits = bitsOf(x), sign = bits & kSign, magnitude = bits ^ sign;
  const uint32_t special = magnitude > kInfinity ? 0x7e00u : 0x7c00u;
  const uint32_t subnormal = bitsOf(floatOf(magnitude) + floatOf(kHalf)) - kHalf;  // the addition rounds
  const uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
  const uint32_t finite = magnitude < kNormal ? subnormal : normal;
  return static_cast<uint16_t>((magnitude >= kOverflow ? special : finite) | sign >> 16);
}
HYC_NARROW_INLINE float fromF16(uint16_t bits) {
  HYC_NARROW_ON_DEVICE(fromF16OnDevice(bits));
  const uint32_t sign = (uint32_t{bits} & 0x8000u) << 16, magnitude = (uint32_t{bits} & 0x7fffu) << 13;
  const uint32_t exponent = magnitude & (31u << 23);
  const uint32_t normal = magnitude + (112u << 23);
  const uint32_t special = magnitude | kInfinity;
  // A subnormal's fraction over 2^-14, less that 2^-14.
  const uint32_t subnormal = bitsOf(floatOf(magnitude + (113u << 23)) - floatOf(113u << 23));
  return floatOf((exponent == (31u << 23) ? special : exponent == 0 ? subnormal : normal) | sign);
}

HYC_NARROW_INLINE uint8_t toE4m3(float x) {
  constexpr uint32_t kNormal = (127u - 6) << 23;  // 2^-6
  constexpr uint32_t kUnit = (127u + 14) << 23;   // 2^14, whose unit in the last place is that of the subnormals: 2^-9
  constexpr uint32_t kNan = 0x7f;                 // and all that would be above 448
  const uint32_t bits = bitsOf(x), sign = bits & kSign, magnitude = bits ^ sign;
  const uint32_t subnormal = bitsOf(floatOf(magnitude) + floatOf(kUnit)) - kUnit;  // the addition rounds
  const uint32_t normal = (magnitude + 0x7ffffu + (magnitude >> 20 & 1) - (120u << 23)) >> 20;
  const uint32_t number = magnitude < kNormal ? subnormal : normal;
  return static_cast<uint8_t>((number < kNan ? number : kNan) | sign >> 24);
}
HYC_NARROW_INLINE float fromE4m3(uint8_t bits) {
  const uint32_t sign = (uint32_t{bits} & 0x80u) << 24, magnitude = (uint32_t{bits} & 0x7fu) << 20;
  const uint32_t normal = magnitude + (120u << 23);
  const uint32_t subnormal = bitsOf(floatOf(magnitude + (121u << 23)) - floatOf(121u << 23));
  const uint32_t number = magnitude < 1u << 23 ? subnormal : normal;
  return floatOf((magnitude == 0x7fu << 20 ? kInfinity | 0x400000u : number) | sign);
}

HYC_NARROW_INLINE uint8_t toE5m2(float x) {
  constexpr uint32_t kNormal = (127u - 14) << 23;  // 2^-14
  constexpr uint32_t kUnit = (127u + 7) << 23;     // 2^7, whose unit in the last place is 2^-16
  constexpr uint32_t kInfinite = 0x7c, kNan = 0x7f;
  const uint32_t bits = bitsOf(x), sign = bits & kSign, magnitude = bits ^ sign;
  const uint32_t subnormal = bitsOf(floatOf(magnitude) + floatOf(kUnit)) - kUnit;
  const uint32_t normal = (magnitude + 0xfffffu + (magnitude >> 21 & 1) - (112u << 23)) >> 21;
  const uint32_t number = magnitude < kNormal ? subnormal : normal;
  const uint32_t finite = number < kInfinite ? number : kInfinite;
  return static_cast<uint8_t>((magnitude > kInfinity ? kNan : finite) | sign >> 24);
}
HYC_NARROW_INLINE float fromE5m2(uint8_t bits) { return fromF16(static_cast<uint16_t>(uint32_t{bits} << 8)); }

#undef HYC_NARROW_ON_DEVICE

}  // namespace narrow

struct Bf16 {
  uint16_t bits;

  Bf16() = default;
  explicit HYC_NARROW_INLINE Bf16(float x) : bits(narrow::toBf16(x)) {}
  HYC_NARROW_INLINE Bf16 &operator=(float x) { return bits = narrow::toBf16(x), *this; }
  HYC_NARROW_INLINE operator float() const { return narrow::fromBf16(bits); }  // NOLINT: exact, so implicit
};

struct F16 {
  uint16_t bits;

  F16() = default;
  explicit HYC_NARROW_INLINE F16(float x) : bits(narrow::toF16(x)) {}
  HYC_NARROW_INLINE F16 &operator=(float x) { return bits = narrow::toF16(x), *this; }
  HYC_NARROW_INLINE operator float() const { return narrow::fromF16(bits); }  // NOLINT: exact, so implicit
};

struct E4m3 {
  uint8_t bits;

  E4m3() = default;
  explicit HYC_NARROW_INLINE E4m3(float x) : bits(narrow::toE4m3(x)) {}
  HYC_NARROW_INLINE E4m3 &operator=(float x) { return bits = narrow::toE4m3(x), *this; }
  HYC_NARROW_INLINE operator float() const { return narrow::fromE4m3(bits); }  // NOLINT: exact, so implicit
};

struct E5m2 {
  uint8_t bits;

  E5m2() = default;
  explicit HYC_NARROW_INLINE E5m2(float x) : bits(narrow::toE5m2(x)) {}
  HYC_NARROW_INLINE E5m2 &operator=(float x) { return bits = narrow::toE5m2(x), *this; }
  HYC_NARROW_INLINE operator float() const { return narrow::fromE5m2(bits); }  // NOLINT: exact, so implicit
};

static_assert(sizeof(Bf16) == 2 && sizeof(F16) == 2 && sizeof(E4m3) == 1 && sizeof(E5m2) == 1);

// x as T holds it.
template <typename T>
HYC_NARROW_INLINE float roundedTo(float x) {
  return static_cast<float>(static_cast<T>(x));
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_NARROW_FLOAT_H_
