// Layer normalisation on GPUs: a block a row, which stays in the first-level cache between the passes over it.
#include "kernels/cuda/rows.h"
#include "kernels/layer_norm/cuda.h"

namespace hyc::kernels::cuda {
namespace {

template <int n, typename T>
__device__ void normaliseRow(const LayerNormDesc &d, const T *x, const float *scale, const float *bias, T *y,
                             float *mean, float *rstd) {
  __shared__ float scratch[kMostWarps];
  const float cols = static_cast<float>(d.cols);
  float sum = 0;
  forColumns<n>(d.cols, [&](int64_t c) {
    const Pack<T, n> pack = loadPack<n>(x + c);
    for (int i = 0; i < n; ++i) sum += pack.at[i];
  });
  const float rowMean = blockSum(sum, scratch) / cols;
  float squares = 0;
  forColumns<n>(d.cols, [&](int64_t c) {
    const Pack<T, n> pack = loadPack<n>(x + c);
    for (int i = 0; i < n; ++i) squares += (pack.at[i] - rowMean) * (pack.at[i] - rowMean);
  });
  const float rowRstd = 1.0f / sqrtf(blockSum(squares, scratch) / cols + static_cast<float>(d.epsilon));
  forColumns<n>(d.cols, [&](int64_t c) {
    const Pack<T, n> pack = loadPack<n>(x + c);
    Pack<T, n> out;
    for (int i = 0; i < n; ++i)
      out.at[i] = T((pack.at[i] - rowMean) * rowRstd * (scale ? scale[c + i] : 1.0f) + (bias ? bias[c + i] : 0.0f));
    storePack(y + c, out);
  });
  if (threadIdx.x == 0) {
    *mean = rowMean;
    *rstd = rowRstd;
  }
}

template <typename T>
__global__ void forwardKernel(LayerNormDesc d, const T *x, const float *scale, const float *bias, T *y, float *mean,
                              float *rstd) {
  const int64_t row = blockIdx.x, at = row * d.cols;
  if (isPackable(d.cols * int64_t{sizeof(T)}, x, y))
    normaliseRow<kPackSize<T>>(d, x + at, scale, bias, y + at, mean + row, rstd + row);
  else
    normaliseRow<1>(d, x + at, scale, bias, y + at, mean + row, rstd + row);
}

template <int n, typename T>
__device__ void differentiateRow(int64_t cols, const T *x, const float *scale, float mean, float rstd, const T *dy,
                                 T *dx) {
  __shared__ float scratch[kMostWarps];
  float sumG = 0, sumGx = 0;
  const auto gradient = [&](T value, int64_t c) { return scale ? value * scale[c] : static_cast<float>(value); };
  forColumns<n>(cols, [&](int64_t c) {
    const Pack<T, n> xPack = loadPack<n>(x + c), dyPack = loadPack<n>(dy + c);
    for (int i = 0; i < n; ++i) {
      const float g = gradient(dyPack.at[i], c + i);
      sumG += g;
      sumGx += g * ((xPack.at[i] - mean) * rstd);
    }
  });
  const float meanG = blockSum(sumG, scratch) / static_cast<float>(cols);
  const float meanGx = blockSum(sumGx, scratch) / static_cast<float>(cols);
  forColumns<n>(cols, [&](int64_t c) {
    const Pack<T, n> xPack = loadPack<n>(x + c), dyPack = loadPack<n>(dy + c);
    Pack<T, n> out;
    for (int i = 0; i < n; ++i)
      out.at[i] = T(rstd * (gradient(dyPack.at[i], c + i) - meanG - (xPack.at[i] - mean) * rstd * meanGx));
    storePack(dx + c, out);
  });
}

template <typename T>
__global__ void backwardKernel(LayerNormDesc d, const T *x, const float *scale, const float *mean, const float *rstd,
                               const T *dy, T *dx) {
  const int64_t row = blockIdx.x, at = row * d.cols;
  if (isPackable(d.cols * int64_t{sizeof(T)}, x, dy, dx))
    differentiateRow<kPackSize<T>>(d.cols, x + at, scale, mean[row], rstd[row], dy + at, dx + at);
  else
    differentiateRow<1>(d.cols, x + at, scale, mean[row], rstd[row], dy + at, dx + at);
}

// One block of rows and a tile of columns: kRowTile threads a column take every kRowTile-th row each, and their sums
// are added in order. partial: [blocks, 2, cols].
template <typename T>
__global__ void parameterKernel(LayerNormDesc d, int64_t rowsPerBlock, const T *x, const float *mean, const float *rstd,
                                const T *dy, float *partial) {
  __shared__ float scales[kRowTile][kColumnTile], biases[kRowTile][kColumnTile];
  const int64_t c = int64_t{blockIdx.x} * kColumnTile + threadIdx.x;
  const int64_t first = blockIdx.y * rowsPerBlock, limit = first + rowsPerBlock, end = limit < d.rows ? limit : d.rows;
  float dscale = 0, dbias = 0;
  for (int64_t row = first + threadIdx.y; row < end && c < d.cols; row += kRowTile) {
    const float g = dy[row * d.cols + c];
    dscale += g * ((x[row * d.cols + c] - mean[row]) * rstd[row]);
    dbias += g;
  }
  scales[threadIdx.y][threadIdx.x] = dscale;
  biases[threadIdx.y][threadIdx.x] = dbias;
  __syncthreads();
  if (threadIdx.y != 0 || c >= d.cols) return;
  for (int r = 1; r < kRowTile; ++r) {
    dscale += scales[r][threadIdx.x];
    dbias += biases[r][threadIdx.x];
  }
  float *to = partial + int64_t{blockIdx.y} * 2 * d.cols + c;
  to[0] = dscale;
  to[d.cols] = dbias;
}

__global__ void combineKernel(int64_t cols, int64_t blocks, const float *partial, WriteMode mode, float *dscale,
                              float *dbias) {
  const int64_t c = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= 2 * cols) return;
  float *to = c < cols ? (dscale ? dscale + c : nullptr) : dbias ? dbias + (c - cols) : nullptr;
  if (!to) return;
  float sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += partial[block * 2 * cols + c];
  *to = mode == WriteMode::kAccumulate ? *to + sum : sum;
}

}  // namespace

template <typename T>
void layerNormForward(Stream stream, const LayerNormDesc &d, const T *x, const float *scale, const float *bias, T *y,
                      float *mean, float *rstd) {
  kernel(forwardKernel<T>).launch(stream, gridOfRows(d.rows, d.cols), d, x, scale, bias, y, mean, rstd);
}

// The parameters' gradients first: dx may be dy.
template <typename T>
void layerNormBackward(Stream stream, const LayerNormDesc &d, const T *x, const float *scale, const float *mean,
                       const float *rstd, const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode,
                       void *workspace) {
  if (dscale || dbias) {
    float *partial = static_cast<float *>(workspace);
    const int64_t rowsPerBlock = layerNormRowsPerBlock(d), blocks = (d.rows + rowsPerBlock - 1) / rowsPerBlock;
    if (blocks > 0)
      kernel(parameterKernel<T>)
          .launch(stream, gridOfColumnSums(d.cols, blocks), d, rowsPerBlock, x, mean, rstd, dy, partial);
    kernel(combineKernel).launch(stream, gridOver(2 * d.cols), d.cols, blocks, partial, mode, dscale, dbias);
  }
  if (dx) kernel(backwardKernel<T>).launch(stream, gridOfRows(d.rows, d.cols), d, x, scale, mean, rstd, dy, dx);
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
