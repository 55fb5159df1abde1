// Layer normalisation on CPUs. Rows are independent; a row stays in the first-level cache between its passes.
#include <cmath>

#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/layer_norm/op.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

template <typename T>
static void normaliseRow(const LayerNormDesc &d, const T *__restrict x, const float *__restrict scale,
                         const float *__restrict bias, T *y, float *mean, float *rstd) {
  const float rowMean = sumOfRow(x, d.cols) / static_cast<float>(d.cols);
  const float squares = sumOfTerms(d.cols, [&](int64_t c) { return (x[c] - rowMean) * (x[c] - rowMean); });
  const float variance = squares / static_cast<float>(d.cols) + static_cast<float>(d.epsilon);
  const float rowRstd = 1.0f / __builtin_sqrtf(variance);
  if (scale && bias) {
    for (int64_t c = 0; c < d.cols; ++c) y[c] = (x[c] - rowMean) * rowRstd * scale[c] + bias[c];
  } else {
    for (int64_t c = 0; c < d.cols; ++c)
      y[c] = (x[c] - rowMean) * rowRstd * (scale ? scale[c] : 1.0f) + (bias ? bias[c] : 0.0f);
  }
  *mean = rowMean;
  *rstd = rowRstd;
}

template <typename T>
void layerNormForward(const LayerNormDesc &d, const T *x, const float *scale, const float *bias, T *y, float *mean,
                      float *rstd) {
  runTeam(d.rows * d.cols >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t row = 0; row < d.rows; ++row)
      normaliseRow(d, x + row * d.cols, scale, bias, y + row * d.cols, mean + row, rstd + row);
  });
}

struct RowStatistics {
  float mean, rstd;
};

template <typename T>
static void differentiateRow(int64_t cols, const T *x, const float *scale, RowStatistics s, const T *dy, T *dx) {
  const auto g = [=](int64_t c) -> float { return scale ? dy[c] * scale[c] : dy[c]; };
  const auto normalised = [=](int64_t c) { return (x[c] - s.mean) * s.rstd; };
  const float meanG = sumOfTerms(cols, g) / static_cast<float>(cols);
  const float meanGx = sumOfTerms(cols, [=](int64_t c) { return g(c) * normalised(c); }) / static_cast<float>(cols);
  if (scale) {
    for (int64_t c = 0; c < cols; ++c) dx[c] = s.rstd * (dy[c] * scale[c] - meanG - normalised(c) * meanGx);
  } else {
    for (int64_t c = 0; c < cols; ++c) dx[c] = s.rstd * (dy[c] - meanG - normalised(c) * meanGx);
  }
}

template <typename T>
static void addParameterTerms(int64_t cols, const T *__restrict x, RowStatistics s, const T *__restrict dy,
                              float *__restrict dscale, float *__restrict dbias) {
  for (int64_t c = 0; c < cols; ++c) {
    dscale[c] += dy[c] * ((x[c] - s.mean) * s.rstd);
    dbias[c] += dy[c];
  }
}

// One column's sum over the blocks of rows, in their order.
static void combineBlocks(const float *partial, int64_t blocks, int64_t stride, WriteMode mode, float *out) {
  float sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += partial[block * stride];
  *out = mode == WriteMode::kAccumulate ? *out + sum : sum;
}

template <typename T>
void layerNormBackward(const LayerNormDesc &d, const T *x, const float *scale, const float *mean, const float *rstd,
                       const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode, void *workspace) {
  const int64_t rowsPerBlock = layerNormRowsPerBlock(d), blocks = (d.rows + rowsPerBlock - 1) / rowsPerBlock;
  const int64_t cols = d.cols;
  const bool wantParameters = dscale || dbias;
  float *partials = static_cast<float *>(workspace);  // [blocks, 2, cols]
  runTeam(d.rows * cols >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t block = 0; block < blocks; ++block) {
      float *partial = partials + block * 2 * cols;
      for (int64_t c = 0; c < 2 * cols && wantParameters; ++c) partial[c] = 0;
      const int64_t end = d.rows < (block + 1) * rowsPerBlock ? d.rows : (block + 1) * rowsPerBlock;
      for (int64_t row = block * rowsPerBlock; row < end; ++row) {
        const RowStatistics s = {mean[row], rstd[row]};
        // Before dx is written: it may be dy.
        if (wantParameters) addParameterTerms(cols, x + row * cols, s, dy + row * cols, partial, partial + cols);
        if (dx) differentiateRow(cols, x + row * cols, scale, s, dy + row * cols, dx + row * cols);
      }
    }
#pragma omp for schedule(static)
    for (int64_t c = 0; c < cols; ++c) {
      if (dscale) combineBlocks(partials + c, blocks, 2 * cols, mode, dscale + c);
      if (dbias) combineBlocks(partials + cols + c, blocks, 2 * cols, mode, dbias + c);
    }
  });
}

HYC_INSTANTIATE(layerNormForward)
HYC_INSTANTIATE(layerNormBackward)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, layerNormForward,
                      (const LayerNormDesc &d, const T *x, const float *scale, const float *bias, T *y, float *mean,
                       float *rstd),
                      (d, x, scale, bias, y, mean, rstd))
HYC_DISPATCH_TEMPLATE(void, layerNormBackward,
                      (const LayerNormDesc &d, const T *x, const float *scale, const float *mean, const float *rstd,
                       const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode, void *workspace),
                      (d, x, scale, mean, rstd, dy, dx, dscale, dbias, mode, workspace))

}  // namespace hyc::kernels
