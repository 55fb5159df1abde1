// Copies, fills and two-dimensional strided copies, which express split and concatenation.
//
// The surprise: ranges larger than the cache are written with non-temporal stores, which do not read the destination
// first; what is written is then not in the cache.
#ifndef HYC_KERNELS_COPY_OP_H_
#define HYC_KERNELS_COPY_OP_H_

#include <cstdint>

#include "kernels/narrow_float.h"

namespace hyc::kernels {

// No source overlaps its destination.
void copy(float *dst, const float *src, int64_t n);
void zero(float *dst, int64_t n);
void fill(float *dst, int64_t n, float value);

// dst[r · ldd + c] = src[r · lds + c] for r < rows, c < cols. Leading dimensions in elements, at least cols.
void copyRows(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t cols);

// dst += src, one addition per element, rounded to T: float, Bf16 or F16.
template <typename T>
void accumulate(T *dst, const T *src, int64_t n);

// dst = src, each rounded to T: Bf16 or F16 (or float, which copies).
template <typename T>
void roundElements(T *dst, const float *src, int64_t n);

// copyRows to f32 and back; T: float, Bf16 or F16.
template <typename T>
void widenRows(float *dst, int64_t ldd, const T *src, int64_t lds, int64_t rows, int64_t cols);
template <typename T>
void roundRows(T *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t cols);

// Of 16-bit elements, which are only moved.
void copy(Bf16 *dst, const Bf16 *src, int64_t n);
void copy(F16 *dst, const F16 *src, int64_t n);
void copyRows(Bf16 *dst, int64_t ldd, const Bf16 *src, int64_t lds, int64_t rows, int64_t cols);
void copyRows(F16 *dst, int64_t ldd, const F16 *src, int64_t lds, int64_t rows, int64_t cols);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_COPY_OP_H_
