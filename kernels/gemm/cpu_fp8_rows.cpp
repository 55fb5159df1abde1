// 8-bit floats widened to bf16.
#include "kernels/gemm/fp8.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

template <typename T>
HYC_INLINE void widen(Bf16 *dst, int64_t ldd, const T *src, int64_t lds, int64_t rows, int64_t cols) {
  runTeam(rows * cols >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t r = 0; r < rows; ++r) {
      uint16_t *to = &dst[r * ldd].bits;
      const T *from = src + r * lds;
#pragma omp simd
      for (int64_t c = 0; c < cols; ++c) to[c] = static_cast<uint16_t>(narrow::bitsOf(from[c]) >> 16);
    }
  });
}

void widenToBf16(Bf16 *dst, int64_t ldd, const E4m3 *src, int64_t lds, int64_t rows, int64_t cols) {
  widen(dst, ldd, src, lds, rows, cols);
}
void widenToBf16(Bf16 *dst, int64_t ldd, const E5m2 *src, int64_t lds, int64_t rows, int64_t cols) {
  widen(dst, ldd, src, lds, rows, cols);
}

}  // namespace HYC_ISA

HYC_DISPATCH(void, widenToBf16, (Bf16 * dst, int64_t ldd, const E4m3 *src, int64_t lds, int64_t rows, int64_t cols),
             (dst, ldd, src, lds, rows, cols))
HYC_DISPATCH(void, widenToBf16, (Bf16 * dst, int64_t ldd, const E5m2 *src, int64_t lds, int64_t rows, int64_t cols),
             (dst, ldd, src, lds, rows, cols))

}  // namespace hyc::kernels
