// Matrix products of 16-bit floats: by tiles where the CPU has them for the type, else widened block by block to f32.
#include <algorithm>
#include <cstdlib>

#include "kernels/copy/op.h"
#include "kernels/gemm/cpu.h"
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

// Blocks of C and of k that are widened at a time; a multiple of kGemmRun, so that the f32 product's runs are the same
// as those of a product that is widened whole.
constexpr int64_t kRows = 512, kColumns = 1536, kDepth = 4 * kGemmRun;

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
static void multiplyBlocks(const GemmDesc &d, const T *a, const T *b, const T *bias, C *c, int64_t row,
                           int64_t column) {
  const int64_t rows = std::min(kRows, d.m - row), columns = std::min(kColumns, d.n - column), ldc = d.rowStrideC();
  float *aWide = threadScratch(kRows * kDepth + kDepth * kColumns + kRows * kColumns + kColumns);
  float *bWide = aWide + kRows * kDepth, *cWide = bWide + kDepth * kColumns, *biasWide = cWide + kRows * kColumns;
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
    gemm(wide, aWide, bWide, biasWide, cWide);
  }
  roundRows(cBlock, ldc, cWide, columns, rows, columns);
}

template <typename T, typename C>
static void gemmByWidening(const GemmDesc &d, const T *a, const T *b, const T *bias, C *c) {
  for (int64_t batch = 0; batch < d.batch; ++batch)
    for (int64_t row = 0; row < d.m; row += kRows)
      for (int64_t column = 0; column < d.n; column += kColumns)
        multiplyBlocks(d, a + batch * d.strideA, b + batch * d.strideB, bias, c + batch * d.strideC, row, column);
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
static void multiply(const GemmDesc &d, const T *a, const T *b, const T *bias, C *c) {
  if (d.m <= 0 || d.n <= 0 || d.batch <= 0) return;
  if (d.k <= 0) return scaleAndAddBias(d, bias, c);
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, Bf16>)
    if (amxIsUsable()) return gemmByAmx(d, a, b, bias, c);
#endif
  gemmByWidening(d, a, b, bias, c);
}

void gemm(const GemmDesc &d, const Bf16 *a, const Bf16 *b, const Bf16 *bias, Bf16 *c) { multiply(d, a, b, bias, c); }
void gemm(const GemmDesc &d, const Bf16 *a, const Bf16 *b, const Bf16 *bias, float *c) { multiply(d, a, b, bias, c); }
void gemm(const GemmDesc &d, const F16 *a, const F16 *b, const F16 *bias, F16 *c) { multiply(d, a, b, bias, c); }
void gemm(const GemmDesc &d, const F16 *a, const F16 *b, const F16 *bias, float *c) { multiply(d, a, b, bias, c); }

}  // namespace hyc::kernels
