// Reductions on CPUs: rows by lanes, middle dimensions by columns of a few cache lines.
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/reduce/op.h"

namespace hyc::kernels {
namespace HYC_ISA {

static_assert(kRowLanes == kReduceLanes);

static void writeResult(const ReduceDesc &d, float result, float *out) {
  if (d.kind == ReduceKind::kMean) result = result / static_cast<float>(d.r);
  *out = d.mode == WriteMode::kAccumulate ? *out + result : result;
}

static void reduceRows(const ReduceDesc &d, const float *x, float *out) {
#pragma omp parallel for schedule(static) if (d.outer * d.r >= kParallelElements)
  for (int64_t row = 0; row < d.outer; ++row) {
    const float *xRow = x + row * d.r;
    writeResult(d, d.kind == ReduceKind::kMax ? maxOfRow(xRow, d.r) : sumOfRow(xRow, d.r), out + row);
  }
}

constexpr int64_t kColumns = 64;  // four cache lines: one job's width

static void sumColumns(int64_t r, int64_t stride, int64_t columns, const float *x, float *total) {
  float run[kColumns];
  for (int64_t c = 0; c < columns; ++c) total[c] = 0;
  for (int64_t first = 0; first < r; first += kReduceRun) {
    const int64_t end = first + kReduceRun < r ? first + kReduceRun : r;
    for (int64_t c = 0; c < columns; ++c) run[c] = 0;
    for (int64_t row = first; row < end; ++row)
      for (int64_t c = 0; c < columns; ++c) run[c] += x[row * stride + c];
    for (int64_t c = 0; c < columns; ++c) total[c] += run[c];
  }
}

static void maxColumns(int64_t r, int64_t stride, int64_t columns, const float *x, float *max) {
  for (int64_t c = 0; c < columns; ++c) max[c] = -__builtin_inff();
  for (int64_t row = 0; row < r; ++row)
    for (int64_t c = 0; c < columns; ++c) max[c] = x[row * stride + c] > max[c] ? x[row * stride + c] : max[c];
}

static void reduceMiddle(const ReduceDesc &d, const float *x, float *out) {
  const int64_t blocks = (d.inner + kColumns - 1) / kColumns;
#pragma omp parallel for schedule(static) if (d.outer * d.r * d.inner >= kParallelElements)
  for (int64_t job = 0; job < d.outer * blocks; ++job) {
    const int64_t o = job / blocks, first = job % blocks * kColumns;
    const int64_t columns = d.inner - first < kColumns ? d.inner - first : kColumns;
    const float *source = x + o * d.r * d.inner + first;
    float result[kColumns];
    if (d.kind == ReduceKind::kMax)
      maxColumns(d.r, d.inner, columns, source, result);
    else if (columns == kColumns)
      sumColumns(d.r, d.inner, kColumns, source, result);  // a constant width unrolls into registers
    else
      sumColumns(d.r, d.inner, columns, source, result);
    for (int64_t c = 0; c < columns; ++c) writeResult(d, result[c], out + o * d.inner + first + c);
  }
}

void reduce(const ReduceDesc &d, const float *x, float *out) {
  if (d.inner == 1)
    reduceRows(d, x, out);
  else
    reduceMiddle(d, x, out);
}

}  // namespace HYC_ISA

HYC_DISPATCH(void, reduce, (const ReduceDesc &d, const float *x, float *out), (d, x, out))

}  // namespace hyc::kernels
