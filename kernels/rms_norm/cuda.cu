// Normalisation by the root mean square on GPUs: a warp a row where that holds it in registers, else a block.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/rows.h"
#include "kernels/rms_norm/cuda.h"

namespace hyc::kernels::cuda {
namespace {

template <typename Rows, typename T>
__global__ void forwardKernel(RmsNormDesc d, const T *x, const float *scale, T *y, float *rstd) {
  constexpr int n = Rows::kPack;
  const int64_t row = Rows::row();
  if (row >= d.rows) return;
  const RowElements<Rows, T> elements(x + row * d.cols, d.cols);
  float squares = 0;
  elements.forEach([&](int64_t, const Pack<T, n> &pack) {
    for (int i = 0; i < n; ++i) squares += float(pack.at[i]) * float(pack.at[i]);
  });
  const float mean = Rows::sum(squares) / static_cast<float>(d.cols);
  const float rowRstd = 1.0f / sqrtf(mean + static_cast<float>(d.epsilon));
  elements.forEach([&](int64_t c, const Pack<T, n> &pack) {
    const Pack<float, n> scales = loadParameters<n>(scale, c, 1.0f);
    Pack<T, n> out;
    for (int i = 0; i < n; ++i) out.at[i] = T(pack.at[i] * rowRstd * scales.at[i]);
    storePack(y + row * d.cols + c, out);
  });
  if (Rows::thread() == 0) rstd[row] = rowRstd;
}

template <typename Rows, typename T>
__global__ void backwardKernel(RmsNormDesc d, const T *x, const float *scale, const float *rstd, const T *dy, T *dx) {
  constexpr int n = Rows::kPack;
  const int64_t row = Rows::row();
  if (row >= d.rows) return;
  const RowElements<Rows, T> xs(x + row * d.cols, d.cols), dys(dy + row * d.cols, d.cols);
  const float rowRstd = rstd[row];
  float sum = 0;
  xs.forEachWith(dys, [&](int64_t c, const Pack<T, n> &xPack, const Pack<T, n> &dyPack) {
    const Pack<float, n> scales = loadParameters<n>(scale, c, 1.0f);
    for (int i = 0; i < n; ++i) sum += dyPack.at[i] * scales.at[i] * (xPack.at[i] * rowRstd);
  });
  const float meanGn = Rows::sum(sum) / static_cast<float>(d.cols);
  xs.forEachWith(dys, [&](int64_t c, const Pack<T, n> &xPack, const Pack<T, n> &dyPack) {
    const Pack<float, n> scales = loadParameters<n>(scale, c, 1.0f);
    Pack<T, n> out;
    for (int i = 0; i < n; ++i) out.at[i] = T(rowRstd * (dyPack.at[i] * scales.at[i] - xPack.at[i] * rowRstd * meanGn));
    storePack(dx + row * d.cols + c, out);
  });
}

// One block of rows and a tile of columns. partial: [blocks, cols].
template <typename T>
__global__ void scaleGradientKernel(RmsNormDesc d, int64_t rowsPerBlock, const T *x, const float *rstd, const T *dy,
                                    float *partial) {
  const int64_t c = (int64_t{blockIdx.x} * kColumnTile + threadIdx.x) * 2;
  const int64_t first = blockIdx.y * rowsPerBlock, limit = first + rowsPerBlock, end = limit < d.rows ? limit : d.rows;
  float sums[2] = {};
  forColumnPair(x, dy, d.cols, c, first, end, [&](int64_t row, const Pack<T, 2> &xs, const Pack<T, 2> &dys) {
    const float rowRstd = rstd[row];
    for (int i = 0; i < 2; ++i) sums[i] += dys.at[i] * (xs.at[i] * rowRstd);
  });
  addRowTiles(sums);
  if (threadIdx.y != 0) return;
  for (int i = 0; i < 2 && c + i < d.cols; ++i) partial[int64_t{blockIdx.y} * d.cols + c + i] = sums[i];
}

__global__ void combineKernel(int64_t cols, int64_t blocks, const float *partial, WriteMode mode, float *dscale) {
  forEach(cols, [&](int64_t c) {
    float sum = 0;
#pragma unroll 8
    for (int64_t block = 0; block < blocks; ++block) sum += partial[block * cols + c];
    dscale[c] = mode == WriteMode::kAccumulate ? dscale[c] + sum : sum;
  });
}

}  // namespace

template <typename T>
void rmsNormForward(Stream stream, const RmsNormDesc &d, const T *x, const float *scale, T *y, float *rstd) {
  chooseRows<T>(d.cols, isPackable(d.cols * int64_t{sizeof(T)}, x, y, scale), [&](auto rows) {
    kernel(forwardKernel<decltype(rows), T>).launch(stream, rows.grid(d.rows), d, x, scale, y, rstd);
  });
}

// The parameter's gradient first: dx may be dy.
template <typename T>
void rmsNormBackward(Stream stream, const RmsNormDesc &d, const T *x, const float *scale, const float *rstd,
                     const T *dy, T *dx, float *dscale, WriteMode mode, void *workspace) {
  if (dscale) {
    float *partial = static_cast<float *>(workspace);
    const int64_t rowsPerBlock = rmsNormRowsPerBlock(d), blocks = (d.rows + rowsPerBlock - 1) / rowsPerBlock;
    if (blocks > 0)
      kernel(scaleGradientKernel<T>)
          .launch(stream, gridOfColumnSums(d.cols, blocks), d, rowsPerBlock, x, rstd, dy, partial);
    kernel(combineKernel).launch(stream, gridOver(d.cols, 64), d.cols, blocks, partial, mode, dscale);
  }
  if (!dx) return;
  chooseRows<T>(d.cols, isPackable(d.cols * int64_t{sizeof(T)}, x, dy, dx, scale), [&](auto rows) {
    kernel(backwardKernel<decltype(rows), T>).launch(stream, rows.grid(d.rows), d, x, scale, rstd, dy, dx);
  });
}

#define HYC_INSTANTIATE(T)                                                                                          \
  template void rmsNormForward<T>(Stream, const RmsNormDesc &, const T *, const float *, T *, float *);             \
  template void rmsNormBackward<T>(Stream, const RmsNormDesc &, const T *, const float *, const float *, const T *, \
                                   T *, float *, WriteMode, void *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
