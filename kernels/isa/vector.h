// The widest f32 vector of the instruction set that this file is compiled for, and the few operations that have no
// operator. Arithmetic is written with + − × ÷, which is element-wise and never contracted.
#ifndef HYC_KERNELS_ISA_VECTOR_H_
#define HYC_KERNELS_ISA_VECTOR_H_

#include <cstdint>

#include "kernels/isa/dispatch.h"

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

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_ISA_VECTOR_H_
