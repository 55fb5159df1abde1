// Normalisation by the root mean square on GPUs: a block a row, which stays in the first-level cache between the passes
// over it.
#include "kernels/cuda/rows.h"
#include "kernels/rms_norm/cuda.h"

namespace hyc::kernels::cuda {
namespace {

template <int n, typename T>
__device__ void scaleRow(const RmsNormDesc &d, const T *x, const float *scale, T *y, float *rstd) {
  __shared__ float scratch[kMostWarps];
  float squares = 0;
  forColumns<n>(d.cols, [&](int64_t c) {
    const Pack<T, n> pack = loadPack<n>(x + c);
    for (int i = 0; i < n; ++i) squares += float(pack.at[i]) * float(pack.at[i]);
  });
  const float mean = blockSum(squares, scratch) / static_cast<float>(d.cols);
  const float rowRstd = 1.0f / sqrtf(mean + static_cast<float>(d.epsilon));
  forColumns<n>(d.cols, [&](int64_t c) {
    const Pack<T, n> pack = loadPack<n>(x + c);
    Pack<T, n> out;
    for (int i = 0; i < n; ++i) out.at[i] = T(pack.at[i] * rowRstd * scale[c + i]);
    storePack(y + c, out);
  });
  if (threadIdx.x == 0) *rstd = rowRstd;
}

template <typename T>
__global__ void forwardKernel(RmsNormDesc d, const T *x, const float *scale, T *y, float *rstd) {
  const int64_t row = blockIdx.x, at = row * d.cols;
  if (isPackable(d.cols * int64_t{sizeof(T)}, x, y))
    scaleRow<kPackSize<T>>(d, x + at, scale, y + at, rstd + row);
  else
    scaleRow<1>(d, x + at, scale, y + at, rstd + row);
}

template <int n, typename T>
__device__ void differentiateRow(int64_t cols, const T *x, const float *scale, float rstd, const T *dy, T *dx) {
  __shared__ float scratch[kMostWarps];
  float sum = 0;
  forColumns<n>(cols, [&](int64_t c) {
    const Pack<T, n> xPack = loadPack<n>(x + c), dyPack = loadPack<n>(dy + c);
    for (int i = 0; i < n; ++i) sum += dyPack.at[i] * scale[c + i] * (xPack.at[i] * rstd);
  });
  const float meanGn = blockSum(sum, scratch) / static_cast<float>(cols);
  forColumns<n>(cols, [&](int64_t c) {
    const Pack<T, n> xPack = loadPack<n>(x + c), dyPack = loadPack<n>(dy + c);
    Pack<T, n> out;
    for (int i = 0; i < n; ++i) out.at[i] = T(rstd * (dyPack.at[i] * scale[c + i] - xPack.at[i] * rstd * meanGn));
    storePack(dx + c, out);
  });
}

template <typename T>
__global__ void backwardKernel(RmsNormDesc d, const T *x, const float *scale, const float *rstd, const T *dy, T *dx) {
  const int64_t row = blockIdx.x, at = row * d.cols;
  if (isPackable(d.cols * int64_t{sizeof(T)}, x, dy, dx))
    differentiateRow<kPackSize<T>>(d.cols, x + at, scale, rstd[row], dy + at, dx + at);
  else
    differentiateRow<1>(d.cols, x + at, scale, rstd[row], dy + at, dx + at);
}

// One block of rows and a tile of columns: kRowTile threads a column take every kRowTile-th row each, and their sums
// are added in order. partial: [blocks, cols].
template <typename T>
__global__ void scaleGradientKernel(RmsNormDesc d, int64_t rowsPerBlock, const T *x, const float *rstd, const T *dy,
                                    float *partial) {
  __shared__ float sums[kRowTile][kColumnTile];
  const int64_t c = int64_t{blockIdx.x} * kColumnTile + threadIdx.x;
  const int64_t first = blockIdx.y * rowsPerBlock, limit = first + rowsPerBlock, end = limit < d.rows ? limit : d.rows;
  float sum = 0;
  for (int64_t row = first + threadIdx.y; row < end && c < d.cols; row += kRowTile)
    sum += dy[row * d.cols + c] * (x[row * d.cols + c] * rstd[row]);
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= d.cols) return;
  for (int r = 1; r < kRowTile; ++r) sum += sums[r][threadIdx.x];
  partial[int64_t{blockIdx.y} * d.cols + c] = sum;
}

__global__ void combineKernel(int64_t cols, int64_t blocks, const float *partial, WriteMode mode, float *dscale) {
  const int64_t c = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += partial[block * cols + c];
  dscale[c] = mode == WriteMode::kAccumulate ? dscale[c] + sum : sum;
}

}  // namespace

template <typename T>
void rmsNormForward(Stream stream, const RmsNormDesc &d, const T *x, const float *scale, T *y, float *rstd) {
  kernel(forwardKernel<T>).launch(stream, gridOfRows(d.rows, d.cols), d, x, scale, y, rstd);
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
    kernel(combineKernel).launch(stream, gridOver(d.cols), d.cols, blocks, partial, mode, dscale);
  }
  if (dx) kernel(backwardKernel<T>).launch(stream, gridOfRows(d.rows, d.cols), d, x, scale, rstd, dy, dx);
}

#define HYC_INSTANTIATE(T)                                                                                          \
  template void rmsNormForward<T>(Stream, const RmsNormDesc &, const T *, const float *, T *, float *);             \
  template void rmsNormBackward<T>(Stream, const RmsNormDesc &, const T *, const float *, const float *, const T *, \
                                   T *, float *, WriteMode, void *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
