// Normalisation by the root mean square on GPUs: a warp a row where that holds it in registers, else a block.
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

// dx of a row, which may take the place of dy; add(k, i, term of dscale) of each element.
template <typename Rows, typename T, typename Add>
__device__ void gradientOfRow(const RmsNormDesc &d, int64_t row, const T *x, const float *scale, const float *rstd,
                              const T *dy, T *dx, const Add &add) {
  constexpr int n = Rows::kPack;
  const RowElements<Rows, T> xs(x + row * d.cols, d.cols), dys(dy + row * d.cols, d.cols);
  const float rowRstd = rstd[row];
  float sum = 0;
  xs.forEachWith(dys, [&](int k, int64_t c, const Pack<T, n> &xPack, const Pack<T, n> &dyPack) {
    const Pack<float, n> scales = loadParameters<n>(scale, c, 1.0f);
    for (int i = 0; i < n; ++i) {
      const float normal = xPack.at[i] * rowRstd;
      sum += dyPack.at[i] * scales.at[i] * normal;
      add(k, i, dyPack.at[i] * normal);
    }
  });
  const float meanGn = Rows::sum(sum) / static_cast<float>(d.cols);
  xs.forEachWith(dys, [&](int, int64_t c, const Pack<T, n> &xPack, const Pack<T, n> &dyPack) {
    const Pack<float, n> scales = loadParameters<n>(scale, c, 1.0f);
    Pack<T, n> out;
    for (int i = 0; i < n; ++i) out.at[i] = T(rowRstd * (dyPack.at[i] * scales.at[i] - xPack.at[i] * rowRstd * meanGn));
    storePack(dx + row * d.cols + c, out);
  });
}

template <typename Rows, typename T>
__global__ void backwardKernel(RmsNormDesc d, const T *x, const float *scale, const float *rstd, const T *dy, T *dx) {
  const int64_t row = Rows::row();
  if (row < d.rows) gradientOfRow<Rows>(d, row, x, scale, rstd, dy, dx, [](int, int, float) {});
}

// The same and the scale's gradient in one pass, a block of rows a block. partial: [blocks, cols].
template <typename Rows, typename T>
__global__ void wholeBackwardKernel(RmsNormDesc d, int64_t rowsPerBlock, const T *x, const float *scale,
                                    const float *rstd, const T *dy, T *dx, float *partial) {
  const int64_t first = blockIdx.x * rowsPerBlock, limit = first + rowsPerBlock, end = limit < d.rows ? limit : d.rows;
  HeldSums<Rows, 1> sums;
  for (int64_t row = first + Rows::rowOfBlock(); row < end; row += Rows::kRowsAtOnce)
    gradientOfRow<Rows>(d, row, x, scale, rstd, dy, dx, [&](int k, int i, float term) { sums.at(0, k, i) += term; });
  sums.store(d.cols, partial + int64_t{blockIdx.x} * d.cols);
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
  const int64_t c = int64_t{blockIdx.x} * kColumnTile + threadIdx.x;
  const float sum = sumOfRowBlocks(cols, blocks, partial, c);
  if (threadIdx.y != 0 || c >= cols) return;
  dscale[c] = mode == WriteMode::kAccumulate ? dscale[c] + sum : sum;
}

}  // namespace

template <typename T>
void rmsNormForward(Stream stream, const RmsNormDesc &d, const T *x, const float *scale, T *y, float *rstd) {
  chooseRows<T>(d.cols, isPackable(d.cols * int64_t{sizeof(T)}, x, y, scale), [&](auto rows) {
    kernel(forwardKernel<decltype(rows), T>).launch(stream, rows.grid(d.rows), d, x, scale, y, rstd);
  });
}

// Where a pass makes one of them only, the parameter's gradient comes first: dx may be dy.
template <typename T>
void rmsNormBackward(Stream stream, const RmsNormDesc &d, const T *x, const float *scale, const float *rstd,
                     const T *dy, T *dx, float *dscale, WriteMode mode, void *workspace) {
  const NormRowBlocks blocks(d.rows, d.cols);
  float *partial = static_cast<float *>(workspace);
  chooseRows<T>(d.cols, isPackable(d.cols * int64_t{sizeof(T)}, x, dy, dx, scale), [&](auto rows) {
    using Rows = decltype(rows);
    if constexpr (Rows::kHeld > 0)
      if (dx && dscale)
        return kernel(wholeBackwardKernel<Rows, T>)
            .launch(stream, Rows::gridOfBlocks(blocks.count), d, blocks.rowsPerBlock, x, scale, rstd, dy, dx, partial);
    if (dscale)
      kernel(scaleGradientKernel<T>)
          .launch(stream, gridOfColumnSums(d.cols, blocks.count), d, blocks.rowsPerBlock, x, rstd, dy, partial);
    if (dx) kernel(backwardKernel<Rows, T>).launch(stream, rows.grid(d.rows), d, x, scale, rstd, dy, dx);
  });
  if (dscale)
    kernel(combineKernel).launch(stream, gridOfRowBlockSums(d.cols), d.cols, blocks.count, partial, mode, dscale);
}

#define HYC_INSTANTIATE(T)                                                                                          \
  template void rmsNormForward<T>(Stream, const RmsNormDesc &, const T *, const float *, T *, float *);             \
  template void rmsNormBackward<T>(Stream, const RmsNormDesc &, const T *, const float *, const float *, const T *, \
                                   T *, float *, WriteMode, void *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
