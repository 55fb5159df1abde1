// Matrix products of 8-bit floats on CPUs: each operand E4m3 or E5m2, but not both E5m2, as on GPUs; C is bf16 or f32.
//
// Every 8-bit float is a bf16, so blocks of both operands are widened to it and multiplied as those of bf16 are: with
// its bits, by tiles where the CPU has them, in f32 elsewhere. Blocks are as deep as k, since the bits of a bf16
// product depend on a row, a column and k alone.
#ifndef HYC_KERNELS_GEMM_FP8_H_
#define HYC_KERNELS_GEMM_FP8_H_

#include "kernels/gemm/op.h"
#include "kernels/gemm/workspace.h"

namespace hyc::kernels {

// Blocks of A and of B as bf16, and the scratch memory of their product; in bytes.
struct Float8Workspace {
  int64_t a = 0, b = 0, inner = 0;

  static constexpr int64_t kRows = 512, kColumns = 1536;

  static constexpr GemmDesc block(const GemmDesc &d) {
    GemmDesc block = d;
    block.m = std::min(kRows, d.m), block.n = std::min(kColumns, d.n), block.batch = 1;
    return block;
  }

  constexpr Float8Workspace(const GemmDesc &d, int threads, bool intoF32) {
    const GemmDesc most = block(d);
    const auto wholeLines = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
    a = wholeLines(most.m * most.k * 2), b = wholeLines(most.k * most.n * 2);
    inner = static_cast<int64_t>(intoF32 ? gemmNarrowWorkspaceBytes<Bf16, float>(most, threads)
                                         : gemmNarrowWorkspaceBytes<Bf16, Bf16>(most, threads));
  }
  constexpr int64_t bytes() const { return a + b + inner; }
};

// As in op.h. `workspace` holds Float8Workspace(desc, omp_get_max_threads(), C is float).bytes(), aligned to 64, or is
// null.
#define HYC_FLOAT8_GEMM(A, B, C) \
  void gemm(const GemmDesc &desc, const A *a, const B *b, const Bf16 *bias, C *c, void *workspace = nullptr)
HYC_FLOAT8_GEMM(E4m3, E4m3, Bf16);
HYC_FLOAT8_GEMM(E4m3, E4m3, float);
HYC_FLOAT8_GEMM(E4m3, E5m2, Bf16);
HYC_FLOAT8_GEMM(E4m3, E5m2, float);
HYC_FLOAT8_GEMM(E5m2, E4m3, Bf16);
HYC_FLOAT8_GEMM(E5m2, E4m3, float);
#undef HYC_FLOAT8_GEMM

// dst[r · ldd + c] = src[r · lds + c] for r < rows, c < cols. Exact.
void widenToBf16(Bf16 *dst, int64_t ldd, const E4m3 *src, int64_t lds, int64_t rows, int64_t cols);
void widenToBf16(Bf16 *dst, int64_t ldd, const E5m2 *src, int64_t lds, int64_t rows, int64_t cols);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_GEMM_FP8_H_
