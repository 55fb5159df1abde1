// Matrix products of 16-bit floats: by tiles where the CPU has them for the type, else widened block by block to f32.
#include <omp.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/copy/op.h"
#include "kernels/gemm/cpu.h"
#include "kernels/gemm/workspace.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/scratch.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hyc::kernels {

// ------------------------------------------------------------------------------------------------------------- tiles

bool amxIsUsable() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool usable = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(2)
    return isaIsBest() && currentIsa() == Isa::kAvx512 && __builtin_cpu_supports("amx-bf16") &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return usable;
#else
  return false;
#endif
}

// ---------------------------------------------------------------------------------------------------------- widening

constexpr int64_t kRows = WideningWorkspace::kRows, kColumns = WideningWorkspace::kColumns,
                  kDepth = WideningWorkspace::kDepth;

// op(X)'s block of rows × columns from (row, column) on, as it is stored, widened.
template <typename T>
static void widenBlock(const T *x, int64_t ld, bool transposed, int64_t row, int64_t column, int64_t rows,
                       int64_t columns, float *to) {
  if (transposed) {
    std::swap(row, column);
    std::swap(rows, columns);
  }
  widenRows(to, columns, x + row * ld + column, ld, rows, columns);
}

template <typename T, typename C>
static void multiplyBlocks(const GemmDesc &d, const T *a, const T *b, const T *bias, C *c, int64_t row, int64_t column,
                           float *scratch) {
  const int64_t rows = std::min(kRows, d.m - row), columns = std::min(kColumns, d.n - column), ldc = d.rowStrideC();
  const WideningWorkspace plan(d, omp_get_max_threads());
  float *aWide = scratch + plan.inner, *bWide = aWide + plan.a, *biasWide = bWide + plan.b;
  float *cWide = biasWide + plan.bias;
  C *cBlock = c + row * ldc + column;
  if (d.beta != 0) widenRows(cWide, columns, cBlock, ldc, rows, columns);
  if (d.hasBias) widenRows(biasWide, columns, bias + column, columns, 1, columns);
  GemmDesc wide;
  wide.m = rows, wide.n = columns, wide.transA = d.transA, wide.transB = d.transB, wide.alpha = d.alpha;
  for (int64_t k = 0; k < d.k; k += kDepth) {
    wide.k = std::min(kDepth, d.k - k);
    wide.beta = k == 0 ? d.beta : 1;
    wide.hasBias = d.hasBias && k == 0;
    widenBlock(a, d.rowStrideA(), d.transA, row, k, rows, wide.k, aWide);
    widenBlock(b, d.rowStrideB(), d.transB, k, column, wide.k, columns, bWide);
    gemm(wide, aWide, bWide, biasWide, cWide, scratch);
  }
  roundRows(cBlock, ldc, cWide, columns, rows, columns);
}

template <typename T, typename C>
static void gemmByWidening(const GemmDesc &d, const T *a, const T *b, const T *bias, C *c, float *scratch) {
  for (int64_t batch = 0; batch < d.batch; ++batch)
    for (int64_t row = 0; row < d.m; row += kRows)
      for (int64_t column = 0; column < d.n; column += kColumns)
        multiplyBlocks(d, a + batch * d.strideA, b + batch * d.strideB, bias, c + batch * d.strideC, row, column,
                       scratch);
}

// ------------------------------------------------------------------------------------------------------------ public

// k = 0: beta · C + bias.
template <typename T, typename C>
static void scaleAndAddBias(const GemmDesc &d, const T *bias, C *c) {
  for (int64_t batch = 0; batch < d.batch; ++batch)
    for (int64_t i = 0; i < d.m; ++i)
      for (int64_t j = 0; j < d.n; ++j) {
        C &element = c[batch * d.strideC + i * d.rowStrideC() + j];
        const float value = d.hasBias ? static_cast<float>(bias[j]) : 0.0f;
        element = C(d.beta != 0 ? value + element : value);
      }
}

template <typename T, typename C>
static void multiply(const GemmDesc &d, const T *a, const T *b, const T *bias, C *c, void *workspace) {
  if (d.m <= 0 || d.n <= 0 || d.batch <= 0) return;
  if (d.k <= 0) return scaleAndAddBias(d, bias, c);
  float *scratch = static_cast<float *>(workspace);
  if (!scratch) {
    const size_t bytes = gemmNarrowWorkspaceBytes<T, C>(d, omp_get_max_threads());
    scratch = threadScratch(static_cast<int64_t>(bytes / sizeof(float)));
  }
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, Bf16>)
    if (amxIsUsable()) return gemmByAmx(d, a, b, bias, c, scratch);
#endif
  gemmByWidening(d, a, b, bias, c, scratch);
}

#define HYC_NARROW_GEMM(T, C)                                                                  \
  void gemm(const GemmDesc &d, const T *a, const T *b, const T *bias, C *c, void *workspace) { \
    multiply(d, a, b, bias, c, workspace);                                                     \
  }
HYC_NARROW_GEMM(Bf16, Bf16)
HYC_NARROW_GEMM(Bf16, float)
HYC_NARROW_GEMM(F16, F16)
HYC_NARROW_GEMM(F16, float)
#undef HYC_NARROW_GEMM

}  // namespace hyc::kernels
