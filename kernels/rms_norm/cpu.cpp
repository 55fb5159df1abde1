// Normalisation by the root mean square on CPUs. Rows are independent; a row stays in the first-level cache between its
// passes.
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"
#include "kernels/rms_norm/op.h"

namespace hyc::kernels {
namespace HYC_ISA {

template <typename T>
static void scaleRow(const RmsNormDesc &d, const T *x, const float *__restrict scale, T *y, float *rstd) {
  const float squares = sumOfTerms(d.cols, [=](int64_t c) { return float(x[c]) * float(x[c]); });
  const float rowRstd = 1.0f / __builtin_sqrtf(squares / static_cast<float>(d.cols) + static_cast<float>(d.epsilon));
  for (int64_t c = 0; c < d.cols; ++c) y[c] = T(x[c] * rowRstd * scale[c]);
  *rstd = rowRstd;
}

template <typename T>
void rmsNormForward(const RmsNormDesc &d, const T *x, const float *scale, T *y, float *rstd) {
  runTeam(d.rows * d.cols >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t row = 0; row < d.rows; ++row) scaleRow(d, x + row * d.cols, scale, y + row * d.cols, rstd + row);
  });
}

template <typename T>
static void backThroughRow(int64_t cols, const T *x, const float *__restrict scale, float rstd, const T *dy, T *dx) {
  const float meanGn =
      sumOfTerms(cols, [=](int64_t c) { return dy[c] * scale[c] * (x[c] * rstd); }) / static_cast<float>(cols);
  for (int64_t c = 0; c < cols; ++c) dx[c] = T(rstd * (dy[c] * scale[c] - x[c] * rstd * meanGn));
}

template <typename T>
void rmsNormBackward(const RmsNormDesc &d, const T *x, const float *scale, const float *rstd, const T *dy, T *dx,
                     float *dscale, WriteMode mode, void *workspace) {
  const int64_t rowsPerBlock = rmsNormRowsPerBlock(d), blocks = (d.rows + rowsPerBlock - 1) / rowsPerBlock;
  const int64_t cols = d.cols;
  float *partials = static_cast<float *>(workspace);  // [blocks, cols]
  runTeam(d.rows * cols >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t block = 0; block < blocks; ++block) {
      float *__restrict partial = partials + block * cols;
      for (int64_t c = 0; c < cols && dscale; ++c) partial[c] = 0;
      const int64_t end = d.rows < (block + 1) * rowsPerBlock ? d.rows : (block + 1) * rowsPerBlock;
      for (int64_t row = block * rowsPerBlock; row < end; ++row) {
        const T *xRow = x + row * cols, *dyRow = dy + row * cols;
        // Before dx is written: it may be dy.
        for (int64_t c = 0; c < cols && dscale; ++c) partial[c] += dyRow[c] * (xRow[c] * rstd[row]);
        if (dx) backThroughRow(cols, xRow, scale, rstd[row], dyRow, dx + row * cols);
      }
    }
#pragma omp for schedule(static)
    for (int64_t c = 0; c < (dscale ? cols : 0); ++c) {
      float sum = 0;  // over the blocks of rows, in their order
      for (int64_t block = 0; block < blocks; ++block) sum += partials[block * cols + c];
      dscale[c] = mode == WriteMode::kAccumulate ? dscale[c] + sum : sum;
    }
  });
}

HYC_INSTANTIATE(rmsNormForward)
HYC_INSTANTIATE(rmsNormBackward)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, rmsNormForward, (const RmsNormDesc &d, const T *x, const float *scale, T *y, float *rstd),
                      (d, x, scale, y, rstd))
HYC_DISPATCH_TEMPLATE(void, rmsNormBackward,
                      (const RmsNormDesc &d, const T *x, const float *scale, const float *rstd, const T *dy, T *dx,
                       float *dscale, WriteMode mode, void *workspace),
                      (d, x, scale, rstd, dy, dx, dscale, mode, workspace))

}  // namespace hyc::kernels
