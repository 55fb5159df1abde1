// Copies, fills and two-dimensional strided copies, which express split and concatenation.
//
// The surprise: ranges larger than the cache are written with non-temporal stores, which do not read the destination
// first; what is written is then not in the cache.
#ifndef HYC_KERNELS_COPY_OP_H_
#define HYC_KERNELS_COPY_OP_H_

#include <cstdint>

namespace hyc::kernels {

// No source overlaps its destination.
void copy(float *dst, const float *src, int64_t n);
void zero(float *dst, int64_t n);
void fill(float *dst, int64_t n, float value);

// dst[r · ldd + c] = src[r · lds + c] for r < rows, c < cols. Leading dimensions in elements, at least cols.
void copyRows(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t cols);

// dst += src, one addition per element.
void accumulate(float *dst, const float *src, int64_t n);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_COPY_OP_H_
