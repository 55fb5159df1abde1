// Products of few rows: B is read where it lies. Each of its elements is used once a row, so that packing it first, as
// products of many rows do, costs as much as the product: it would be read twice and written once.
//
// An element is the same chain of multiply-adds as there (op.h), so its bits are the same.
#ifndef HYC_KERNELS_GEMM_FEW_ROWS_H_
#define HYC_KERNELS_GEMM_FEW_ROWS_H_

#include "kernels/gemm/epilogue.h"
#include "kernels/gemm/op.h"
#include "kernels/gemm/pack.h"
#include "kernels/isa/micro_kernel.h"

namespace hyc::kernels::HYC_ISA {

// At most so many rows are worth it: of a B that is stored by rows, whose columns are vectors as they lie, and of one
// that is transposed on the way.
constexpr int64_t kFewRows = 16, kFewRowsTransposed = HYC_ISA_ID == 2 ? 8 : 4;
// Rows that are computed at a time, each over so many vectors.
constexpr int kRowsTogether = 4, kFewVectors = HYC_ISA_ID == 2 ? 4 : 2;
constexpr int64_t kFewColumns = kFewVectors * kLanes;

static_assert(kFewColumns * kGemmRun * sizeof(float) <= kGemmThreadWorkspaceBytes);

constexpr bool hasFewRows(const GemmDesc &d) {
  return d.transB ? HYC_ISA_ID != 0 && d.m <= kFewRowsTransposed : d.m <= kFewRows;
}

// Rows of A over one run of k, and where B's first column is there. Sums come out row after row, kFewColumns each.
// `scratch` has room for a run of so many columns.
struct FewRowsOperands {
  const float *a;
  int64_t aRow, aStep;
  const float *b;
  int64_t ldb;
  int64_t columns;  // at most kFewColumns; others' sums say nothing
  float *scratch;
};

template <int kRows>
HYC_INLINE void sumByRowsOfB(int64_t steps, const FewRowsOperands &x, float *sums) {
  MicroOperands operands = {x.a, x.aRow, x.aStep, x.b, x.ldb, nullptr, 0};
  if (x.columns < kFewColumns) {
    packContiguousLanes<kFewColumns>(x.b, x.ldb, x.columns, steps, x.scratch);
    operands.b = x.scratch;
    operands.bStep = kFewColumns;
  }
  Vector sum[kRows][kFewVectors];
  multiplyBlock<kRows, kFewVectors>(sum, steps, operands);
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kFewVectors; ++j) store(sums + i * kFewColumns + j * kLanes, sum[i][j]);
}

#if HYC_ISA_ID != 0
// Eight columns of B, each contiguous in k: transposed in registers, eight steps at a time.
template <int kRows>
HYC_INLINE void sumEightColumns(int64_t steps, const FewRowsOperands &x, int64_t first, float *sums) {
  const int64_t lanes = x.columns - first;
  const float *b = x.b + first * x.ldb, *a = x.a;
  __m256 sum[kRows];
  for (int i = 0; i < kRows; ++i) sum[i] = _mm256_setzero_ps();
  int64_t p = 0;
  for (; p + 8 <= steps; p += 8) {
    __m256 block[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) block[j] = j < lanes ? _mm256_loadu_ps(b + j * x.ldb + p) : _mm256_setzero_ps();
    transpose8x8(block);
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q, a += x.aStep)
#pragma GCC unroll 4
      for (int i = 0; i < kRows; ++i) sum[i] = _mm256_fmadd_ps(_mm256_set1_ps(a[i * x.aRow]), block[q], sum[i]);
  }
  for (; p < steps; ++p, a += x.aStep) {
    alignas(32) float row[8] = {};
    for (int64_t j = 0; j < 8 && j < lanes; ++j) row[j] = b[j * x.ldb + p];
    for (int i = 0; i < kRows; ++i)
      sum[i] = _mm256_fmadd_ps(_mm256_set1_ps(a[i * x.aRow]), _mm256_load_ps(row), sum[i]);
  }
  for (int i = 0; i < kRows; ++i) _mm256_storeu_ps(sums + i * kFewColumns + first, sum[i]);
}

template <int kRows>
HYC_INLINE void sumByColumnsOfB(int64_t steps, const FewRowsOperands &x, float *sums) {
  for (int64_t first = 0; first < x.columns; first += 8) sumEightColumns<kRows>(steps, x, first, sums);
}
#else
template <int kRows>
void sumByColumnsOfB(int64_t, const FewRowsOperands &, float *) {}  // hasFewRows rules it out
#endif

template <int kRows>
void multiplyRowsTogether(const GemmDesc &d, int64_t steps, const FewRowsOperands &x, const Epilogue &e, float *c) {
  alignas(64) float sums[kRows * kFewColumns];
  if (d.transB)
    sumByColumnsOfB<kRows>(steps, x, sums);
  else
    sumByRowsOfB<kRows>(steps, x, sums);
  for (int i = 0; i < kRows; ++i) finishRow(sums + i * kFewColumns, e, x.columns, c + i * d.rowStrideC());
}

// All rows of up to kFewColumns columns of C, from `column` on. a, b and c are one product's.
inline void multiplyFewRows(const GemmDesc &d, const float *a, const float *b, const float *bias, float *c,
                            int64_t column, float *scratch) {
  const int64_t lda = d.rowStrideA(), ldb = d.rowStrideB(),
                columns = d.n - column < kFewColumns ? d.n - column : kFewColumns;
  const int64_t aRow = d.transA ? 1 : lda, aStep = d.transA ? lda : 1;
  for (int64_t run = 0; run < d.k; run += kGemmRun) {
    const int64_t steps = d.k - run < kGemmRun ? d.k - run : kGemmRun;
    const Epilogue epilogue = {static_cast<float>(d.alpha), d.hasBias && run == 0 ? bias + column : nullptr,
                               d.beta != 0 || run > 0};
    for (int64_t row = 0; row < d.m; row += kRowsTogether) {
      const FewRowsOperands x = {a + row * aRow + run * aStep,
                                 aRow,
                                 aStep,
                                 d.transB ? b + column * ldb + run : b + run * ldb + column,
                                 ldb,
                                 columns,
                                 scratch};
      float *const rowsOfC = c + row * d.rowStrideC() + column;
      switch (d.m - row < kRowsTogether ? d.m - row : kRowsTogether) {
        case 1:
          multiplyRowsTogether<1>(d, steps, x, epilogue, rowsOfC);
          break;
        case 2:
          multiplyRowsTogether<2>(d, steps, x, epilogue, rowsOfC);
          break;
        case 3:
          multiplyRowsTogether<3>(d, steps, x, epilogue, rowsOfC);
          break;
        default:
          multiplyRowsTogether<kRowsTogether>(d, steps, x, epilogue, rowsOfC);
      }
    }
  }
}

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_GEMM_FEW_ROWS_H_
