// Products of 8-bit floats, block by block as products of bf16.
#include "kernels/gemm/fp8.h"

#include <omp.h>

#include "kernels/isa/scratch.h"

namespace hyc::kernels {
namespace {

// op(X)'s block of rows × columns from (row, column) on, dense and as it is stored.
template <typename T>
void widenBlock(const T *x, int64_t ld, bool transposed, int64_t row, int64_t column, int64_t rows, int64_t columns,
                Bf16 *to) {
  if (transposed) {
    std::swap(row, column);
    std::swap(rows, columns);
  }
  widenToBf16(to, columns, x + row * ld + column, ld, rows, columns);
}

template <typename A, typename B, typename C>
void multiply(const GemmDesc &d, const A *a, const B *b, const Bf16 *bias, C *c, void *workspace) {
  if (d.m <= 0 || d.n <= 0 || d.batch <= 0) return;
  if (d.k <= 0) return gemm(d, static_cast<const Bf16 *>(nullptr), nullptr, bias, c);
  const Float8Workspace plan(d, omp_get_max_threads(), sizeof(C) == sizeof(float));
  char *memory = static_cast<char *>(workspace);
  if (!memory) memory = reinterpret_cast<char *>(threadScratch((plan.bytes() + 3) / 4));
  Bf16 *aWide = reinterpret_cast<Bf16 *>(memory), *bWide = reinterpret_cast<Bf16 *>(memory + plan.a);
  GemmDesc block = Float8Workspace::block(d);
  block.lda = block.ldb = 0;
  block.ldc = d.rowStrideC();
  for (int64_t batch = 0; batch < d.batch; ++batch)
    for (int64_t column = 0; column < d.n; column += Float8Workspace::kColumns) {
      block.n = std::min(Float8Workspace::kColumns, d.n - column);
      widenBlock(b + batch * d.strideB, d.rowStrideB(), d.transB, 0, column, d.k, block.n, bWide);
      for (int64_t row = 0; row < d.m; row += Float8Workspace::kRows) {
        block.m = std::min(Float8Workspace::kRows, d.m - row);
        widenBlock(a + batch * d.strideA, d.rowStrideA(), d.transA, row, 0, block.m, d.k, aWide);
        gemm(block, aWide, bWide, d.hasBias ? bias + column : nullptr,
             c + batch * d.strideC + row * d.rowStrideC() + column, memory + plan.a + plan.b);
      }
    }
}

}  // namespace

#define HYC_FLOAT8_GEMM(A, B, C)                                                                     \
  void gemm(const GemmDesc &desc, const A *a, const B *b, const Bf16 *bias, C *c, void *workspace) { \
    multiply(desc, a, b, bias, c, workspace);                                                        \
  }
HYC_FLOAT8_GEMM(E4m3, E4m3, Bf16)
HYC_FLOAT8_GEMM(E4m3, E4m3, float)
HYC_FLOAT8_GEMM(E4m3, E5m2, Bf16)
HYC_FLOAT8_GEMM(E4m3, E5m2, float)
HYC_FLOAT8_GEMM(E5m2, E4m3, Bf16)
HYC_FLOAT8_GEMM(E5m2, E4m3, float)
#undef HYC_FLOAT8_GEMM

}  // namespace hyc::kernels
