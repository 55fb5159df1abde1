// Layer normalisation on GPUs: a warp a row where that holds it in registers, else a block.
#include "kernels/cuda/rows.h"
#include "kernels/layer_norm/cuda.h"

namespace hyc::kernels::cuda {
namespace {

template <typename Rows, typename T>
__global__ void forwardKernel(LayerNormDesc d, const T *x, const float *scale, const float *bias, T *y, float *mean,
                              float *rstd) {
  constexpr int n = Rows::kPack;
  const int64_t row = Rows::row();
  if (row >= d.rows) return;
  const RowElements<Rows, T> elements(x + row * d.cols, d.cols);
  const float cols = static_cast<float>(d.cols);
  float sum = 0;
  elements.forEach([&](int64_t, const Pack<T, n> &pack) {
    for (int i = 0; i < n; ++i) sum += pack.at[i];
  });
  const float rowMean = Rows::sum(sum) / cols;
  float squares = 0;
  elements.forEach([&](int64_t, const Pack<T, n> &pack) {
    for (int i = 0; i < n; ++i) squares += (pack.at[i] - rowMean) * (pack.at[i] - rowMean);
  });
  const float rowRstd = 1.0f / sqrtf(Rows::sum(squares) / cols + static_cast<float>(d.epsilon));
  elements.forEach([&](int64_t c, const Pack<T, n> &pack) {
    const Pack<float, n> scales = loadParameters<n>(scale, c, 1.0f), biases = loadParameters<n>(bias, c, 0.0f);
    Pack<T, n> out;
    for (int i = 0; i < n; ++i) out.at[i] = T((pack.at[i] - rowMean) * rowRstd * scales.at[i] + biases.at[i]);
    storePack(y + row * d.cols + c, out);
  });
  if (Rows::thread() == 0) {
    mean[row] = rowMean;
    rstd[row] = rowRstd;
  }
}

// dx of a row, which may take the place of dy; add(k, i, dy, x̂) of each element.
template <typename Rows, typename T, typename Add>
__device__ void gradientOfRow(const LayerNormDesc &d, int64_t row, const T *x, const float *scale, const float *mean,
                              const float *rstd, const T *dy, T *dx, const Add &add) {
  constexpr int n = Rows::kPack;
  const RowElements<Rows, T> xs(x + row * d.cols, d.cols), dys(dy + row * d.cols, d.cols);
  const float rowMean = mean[row], rowRstd = rstd[row], cols = static_cast<float>(d.cols);
  float sumG = 0, sumGx = 0;
  xs.forEachWith(dys, [&](int k, int64_t c, const Pack<T, n> &xPack, const Pack<T, n> &dyPack) {
    const Pack<float, n> scales = loadParameters<n>(scale, c, 1.0f);
    for (int i = 0; i < n; ++i) {
      const float g = dyPack.at[i] * scales.at[i], normal = (xPack.at[i] - rowMean) * rowRstd;
      sumG += g;
      sumGx += g * normal;
      add(k, i, dyPack.at[i], normal);
    }
  });
  const float meanG = Rows::sum(sumG) / cols, meanGx = Rows::sum(sumGx) / cols;
  xs.forEachWith(dys, [&](int, int64_t c, const Pack<T, n> &xPack, const Pack<T, n> &dyPack) {
    const Pack<float, n> scales = loadParameters<n>(scale, c, 1.0f);
    Pack<T, n> out;
    for (int i = 0; i < n; ++i) {
      const float g = dyPack.at[i] * scales.at[i];
      out.at[i] = T(rowRstd * (g - meanG - (xPack.at[i] - rowMean) * rowRstd * meanGx));
    }
    storePack(dx + row * d.cols + c, out);
  });
}

template <typename Rows, typename T>
__global__ void backwardKernel(LayerNormDesc d, const T *x, const float *scale, const float *mean, const float *rstd,
                               const T *dy, T *dx) {
  const int64_t row = Rows::row();
  if (row < d.rows) gradientOfRow<Rows>(d, row, x, scale, mean, rstd, dy, dx, [](int, int, float, float) {});
}

// The same and the parameters' gradients in one pass, a block of rows a block. partial: [blocks, 2, cols].
template <typename Rows, typename T>
__global__ void wholeBackwardKernel(LayerNormDesc d, int64_t rowsPerBlock, const T *x, const float *scale,
                                    const float *mean, const float *rstd, const T *dy, T *dx, float *partial) {
  const int64_t first = blockIdx.x * rowsPerBlock, limit = first + rowsPerBlock, end = limit < d.rows ? limit : d.rows;
  HeldSums<Rows, 2> sums;
  for (int64_t row = first + Rows::rowOfBlock(); row < end; row += Rows::kRowsAtOnce)
    gradientOfRow<Rows>(d, row, x, scale, mean, rstd, dy, dx, [&](int k, int i, float g, float normal) {
      sums.at(0, k, i) += g * normal;
      sums.at(1, k, i) += g;
    });
  sums.store(d.cols, partial + int64_t{blockIdx.x} * 2 * d.cols);
}

// One block of rows and a tile of columns. partial: [blocks, 2, cols].
template <typename T>
__global__ void parameterKernel(LayerNormDesc d, int64_t rowsPerBlock, const T *x, const float *mean, const float *rstd,
                                const T *dy, float *partial) {
  const int64_t c = (int64_t{blockIdx.x} * kColumnTile + threadIdx.x) * 2;
  const int64_t first = blockIdx.y * rowsPerBlock, limit = first + rowsPerBlock, end = limit < d.rows ? limit : d.rows;
  float sums[4] = {};  // dscale and dbias of two columns
  forColumnPair(x, dy, d.cols, c, first, end, [&](int64_t row, const Pack<T, 2> &xs, const Pack<T, 2> &dys) {
    const float rowMean = mean[row], rowRstd = rstd[row];
    for (int i = 0; i < 2; ++i) {
      const float g = dys.at[i];
      sums[i] += g * ((xs.at[i] - rowMean) * rowRstd);
      sums[2 + i] += g;
    }
  });
  addRowTiles(sums);
  if (threadIdx.y != 0) return;
  float *to = partial + int64_t{blockIdx.y} * 2 * d.cols + c;
  for (int i = 0; i < 2 && c + i < d.cols; ++i) {
    to[i] = sums[i];
    to[d.cols + i] = sums[2 + i];
  }
}

__global__ void combineKernel(int64_t cols, int64_t blocks, const float *partial, WriteMode mode, float *dscale,
                              float *dbias) {
  const int64_t c = int64_t{blockIdx.x} * kColumnTile + threadIdx.x;
  const float sum = sumOfRowBlocks(2 * cols, blocks, partial, c);
  if (threadIdx.y != 0 || c >= 2 * cols) return;
  float *to = c < cols ? (dscale ? dscale + c : nullptr) : dbias ? dbias + (c - cols) : nullptr;
  if (to) *to = mode == WriteMode::kAccumulate ? *to + sum : sum;
}

}  // namespace

template <typename T>
void layerNormForward(Stream stream, const LayerNormDesc &d, const T *x, const float *scale, const float *bias, T *y,
                      float *mean, float *rstd) {
  chooseRows<T>(d.cols, isPackable(d.cols * int64_t{sizeof(T)}, x, y, scale, bias), [&](auto rows) {
    kernel(forwardKernel<decltype(rows), T>).launch(stream, rows.grid(d.rows), d, x, scale, bias, y, mean, rstd);
  });
}

// Where a pass makes one of them only, the parameters' gradients come first: dx may be dy.
template <typename T>
void layerNormBackward(Stream stream, const LayerNormDesc &d, const T *x, const float *scale, const float *mean,
                       const float *rstd, const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode,
                       void *workspace) {
  const bool makesParameters = dscale || dbias;
  const NormRowBlocks blocks(d.rows, d.cols);
  float *partial = static_cast<float *>(workspace);
  chooseRows<T>(d.cols, isPackable(d.cols * int64_t{sizeof(T)}, x, dy, dx, scale), [&](auto rows) {
    using Rows = decltype(rows);
    if constexpr (Rows::kHeld > 0)
      if (dx && makesParameters)
        return kernel(wholeBackwardKernel<Rows, T>)
            .launch(stream, Rows::gridOfBlocks(blocks.count), d, blocks.rowsPerBlock, x, scale, mean, rstd, dy, dx,
                    partial);
    if (makesParameters)
      kernel(parameterKernel<T>)
          .launch(stream, gridOfColumnSums(d.cols, blocks.count), d, blocks.rowsPerBlock, x, mean, rstd, dy, partial);
    if (dx) kernel(backwardKernel<Rows, T>).launch(stream, rows.grid(d.rows), d, x, scale, mean, rstd, dy, dx);
  });
  if (makesParameters)
    kernel(combineKernel)
        .launch(stream, gridOfRowBlockSums(2 * d.cols), d.cols, blocks.count, partial, mode, dscale, dbias);
}

#define HYC_INSTANTIATE(T)                                                                                       \
  template void layerNormForward<T>(Stream, const LayerNormDesc &, const T *, const float *, const float *, T *, \
                                    float *, float *);                                                           \
  template void layerNormBackward<T>(Stream, const LayerNormDesc &, const T *, const float *, const float *,     \
                                     const float *, const T *, T *, float *, float *, WriteMode, void *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
