// Packing of operands into panels: kWidth lanes wide, one row per k, missing lanes filled with zeros.
#ifndef HYC_KERNELS_GEMM_PACK_H_
#define HYC_KERNELS_GEMM_PACK_H_

#include <cstdint>

#include "kernels/isa/transpose.h"

namespace hyc::kernels::HYC_ISA {

#if HYC_ISA_ID != 0
// Eight steps of k of one panel whose lanes lie `ld` apart. Whole groups of eight lanes are stored, in ascending order,
// so that what spills over a panel's width is overwritten by the next step; the buffer has room for the last spill.
template <int kWidth>
HYC_INLINE void packEightSteps(const float *src, int64_t ld, int64_t lanes, float *dst) {
  constexpr int kGroups = (kWidth + 7) / 8;
  __m256 group[kGroups][8];
  for (int g = 0; g < kGroups; ++g) {
    for (int i = 0; i < 8; ++i)
      group[g][i] = g * 8 + i < lanes ? _mm256_loadu_ps(src + (g * 8 + i) * ld) : _mm256_setzero_ps();
    transpose8x8(group[g]);
  }
  for (int p = 0; p < 8; ++p)
    for (int g = 0; g < kGroups; ++g) _mm256_storeu_ps(dst + p * kWidth + g * 8, group[g][p]);
}
#endif

// Lane i at step p is src[i · ld + p]. Writes k · kWidth floats, and may write up to kGemmPanelPadding more.
template <int kWidth>
void packStridedLanes(const float *src, int64_t ld, int64_t lanes, int64_t k, float *dst) {
  int64_t p = 0;
#if HYC_ISA_ID != 0
  for (; p + 8 <= k; p += 8) packEightSteps<kWidth>(src + p, ld, lanes, dst + p * kWidth);
#endif
  for (; p < k; ++p)
    for (int64_t i = 0; i < kWidth; ++i) dst[p * kWidth + i] = i < lanes ? src[i * ld + p] : 0.0f;
}

// Lane i at step p is src[p · ld + i]. Writes k · kWidth floats and no more.
template <int kWidth>
void packContiguousLanes(const float *src, int64_t ld, int64_t lanes, int64_t k, float *dst) {
  if (lanes == kWidth) {
    for (int64_t p = 0; p < k; ++p) {
      __builtin_prefetch(src + (p + 16) * ld);  // rows lie pages apart, where the CPU does not look ahead
      for (int64_t i = 0; i < kWidth; ++i) dst[p * kWidth + i] = src[p * ld + i];
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p)
    for (int64_t i = 0; i < kWidth; ++i) dst[p * kWidth + i] = i < lanes ? src[p * ld + i] : 0.0f;
}

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_GEMM_PACK_H_
