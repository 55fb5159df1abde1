// The widest f32 vector of the instruction set that this file is compiled for, and the few operations that have no
// operator. Arithmetic is written with + − × ÷, which is element-wise and never contracted.
#ifndef HYC_KERNELS_ISA_VECTOR_H_
#define HYC_KERNELS_ISA_VECTOR_H_

#include <cstdint>

#include "kernels/isa/dispatch.h"
#include "kernels/narrow_float.h"

#if HYC_ISA_ID != 0
#include <immintrin.h>
#endif

#define HYC_INLINE inline __attribute__((always_inline))

namespace hyc::kernels::HYC_ISA {

#if HYC_ISA_ID == 2
using Vector = __m512;
HYC_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
HYC_INLINE Vector broadcast(float x) { return _mm512_set1_ps(x); }
#elif HYC_ISA_ID == 1
using Vector = __m256;
HYC_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
HYC_INLINE Vector broadcast(float x) { return _mm256_set1_ps(x); }
#else
typedef float Vector __attribute__((vector_size(16)));
HYC_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) { return a * b + c; }
HYC_INLINE Vector broadcast(float x) { return Vector{x, x, x, x}; }
#endif

constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);
typedef float UnalignedVector __attribute__((vector_size(sizeof(Vector)), aligned(4), may_alias));

HYC_INLINE Vector load(const float *p) { return *reinterpret_cast<const UnalignedVector *>(p); }
HYC_INLINE void store(float *p, Vector v) { *reinterpret_cast<UnalignedVector *>(p) = v; }
HYC_INLINE Vector maximum(Vector a, Vector b) { return a > b ? a : b; }

// The same of 16-bit floats: widened when loaded, rounded when stored, with the bits of narrow_float.h.
typedef uint32_t WordVector __attribute__((vector_size(sizeof(Vector))));
typedef uint16_t NarrowVector __attribute__((vector_size(sizeof(Vector) / 2)));
typedef uint16_t UnalignedNarrowVector __attribute__((vector_size(sizeof(Vector) / 2), aligned(2), may_alias));

HYC_INLINE Vector load(const Bf16 *p) {
  const NarrowVector bits = *reinterpret_cast<const UnalignedNarrowVector *>(p);
  return reinterpret_cast<Vector>(__builtin_convertvector(bits, WordVector) << 16);
}
HYC_INLINE void store(Bf16 *p, Vector v) {
  const WordVector bits = reinterpret_cast<WordVector>(v);
  const WordVector rounded = bits + 0x7fffu + (bits >> 16 & 1);
  const WordVector kept = (bits & ~narrow::kSign) > narrow::kInfinity ? bits | 0x400000u : rounded;
  *reinterpret_cast<UnalignedNarrowVector *>(p) = __builtin_convertvector(kept >> 16, NarrowVector);
}
HYC_INLINE Vector load(const F16 *p) {
  float wide[kLanes];
  for (int64_t l = 0; l < kLanes; ++l) wide[l] = p[l];
  return load(wide);
}
HYC_INLINE void store(F16 *p, Vector v) {
  float wide[kLanes];
  store(wide, v);
  for (int64_t l = 0; l < kLanes; ++l) p[l] = F16(wide[l]);
}

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_ISA_VECTOR_H_
