// Transposition of f32 blocks through registers.
#ifndef HYC_KERNELS_ISA_TRANSPOSE_H_
#define HYC_KERNELS_ISA_TRANSPOSE_H_

#include "kernels/isa/vector.h"

namespace hyc::kernels::HYC_ISA {

#if HYC_ISA_ID != 0
// Eight rows of eight become eight columns.
HYC_INLINE void transpose8x8(__m256 (&row)[8]) {
  __m256 pair[8], quad[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    row[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
    row[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
  }
}
#endif

// dst[c · ldd + r] = src[r · lds + c] for r < rows, c < cols.
inline void transposeBlock(const float *src, int64_t lds, int64_t rows, int64_t cols, float *dst, int64_t ldd) {
  int64_t r = 0;
#if HYC_ISA_ID != 0
  for (; r + 8 <= rows; r += 8) {
    int64_t c = 0;
    for (; c + 8 <= cols; c += 8) {
      __m256 block[8];
      for (int i = 0; i < 8; ++i) block[i] = _mm256_loadu_ps(src + (r + i) * lds + c);
      transpose8x8(block);
      for (int i = 0; i < 8; ++i) _mm256_storeu_ps(dst + (c + i) * ldd + r, block[i]);
    }
    for (; c < cols; ++c)
      for (int64_t i = r; i < r + 8; ++i) dst[c * ldd + i] = src[i * lds + c];
  }
#endif
  for (; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) dst[c * ldd + r] = src[r * lds + c];
}

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_ISA_TRANSPOSE_H_
