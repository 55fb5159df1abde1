// Tiles of 64 rows for attention on tensor cores. A block has four warps, each with 16 of its 64 rows; the rows of the
// other side come in tiles of 64 through shared memory. Heads are filled up with zeros to D dimensions.
#ifndef HYC_KERNELS_ATTENTION_CUDA_TENSOR_H_
#define HYC_KERNELS_ATTENTION_CUDA_TENSOR_H_

#include "kernels/attention/cuda_tile.h"
#include "kernels/cuda/tensor_core.h"

#ifdef __CUDACC__
#define HYC_UNROLL _Pragma("unroll")
#else
#define HYC_UNROLL
#endif

namespace hyc::kernels::cuda::attention {

constexpr int kTile = 64, kWarpRows = 16, kThreads = kTile / kWarpRows * kWarp;
constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// Rows are 16 bytes longer than they are, so that the eight rows of one ldmatrix meet different banks.
template <int D>
constexpr int kRow = D + 8;
template <int D>
constexpr int kTileElements = kTile *kRow<D>;

// A tensor's rows of one sample and head.
template <typename T>
struct Rows {
  const T *base;
  int64_t stride, length;
};
template <typename T>
__device__ inline Rows<T> rowsOf(const T *base, const HeadStrides &s, int64_t b, int64_t head, int64_t length) {
  return {base + b * s.batch + head * s.head, s.token, length};
}

// Asks for rows first … first + 63; the caller commits and waits. All threads of the block.
template <int D, typename T>
__device__ inline void loadTile(T *tile, const Rows<T> &rows, int64_t first, int64_t headDim) {
  constexpr int kChunk = 8, kChunks = D / kChunk;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kChunks; i += kThreads) {
    const int r = i / kChunks, c = i % kChunks * kChunk;
    const bool isThere = first + r < rows.length && c < headDim;
    copyAsync(tile + r * kRow<D> + c, isThere ? rows.base + (first + r) * rows.stride + c : rows.base, isThere);
  }
}

// Where this lane points in the 8 × 8 tiles of an A operand, of rows as B (transposed product), and of rows as B.
__device__ inline int laneOfWarp() { return static_cast<int>(threadIdx.x) % kWarp; }
template <int D>
__device__ inline int offsetOfA() {
  const int lane = laneOfWarp(), m = lane / 8;
  return (m % 2 * 8 + lane % 8) * kRow<D> + m / 2 * 8;
}
template <int D>
__device__ inline int offsetOfRowsAsColumns() {
  const int lane = laneOfWarp(), m = lane / 8;
  return (m / 2 * 8 + lane % 8) * kRow<D> + m % 2 * 8;
}

using Scores = float[kTile / 8][4];  // 16 × 64: C tiles side by side

// scores += own · otherᵀ. own: the warp's 16 rows; other: 64 rows.
template <int D, typename T>
__device__ inline void addProductOfRows(Scores &scores, const T *own, const T *other) {
  HYC_UNROLL
  for (int k = 0; k < D; k += 16) {
    uint32_t a[4];
    loadMatrices<false>(a, own + offsetOfA<D>() + k);
    HYC_UNROLL
    for (int n = 0; n < kTile / 16; ++n) {
      uint32_t b[4];
      loadMatrices<false>(b, other + n * 16 * kRow<D> + offsetOfRowsAsColumns<D>() + k);
      multiplyAdd<T>(scores[2 * n], a, {b[0], b[1]});
      multiplyAdd<T>(scores[2 * n + 1], a, {b[2], b[3]});
    }
  }
}

// sums += weights · rows: weights 16 × 64 rounded to T, rows 64 × D.
template <int D, typename T>
__device__ inline void addWeightedRows(float (&sums)[D / 8][4], const Scores &weights, const T *rows) {
  HYC_UNROLL
  for (int k = 0; k < kTile / 16; ++k) {
    const uint32_t a[4] = {packPair<T>(weights[2 * k][0], weights[2 * k][1]),
                           packPair<T>(weights[2 * k][2], weights[2 * k][3]),
                           packPair<T>(weights[2 * k + 1][0], weights[2 * k + 1][1]),
                           packPair<T>(weights[2 * k + 1][2], weights[2 * k + 1][3])};
    HYC_UNROLL
    for (int n = 0; n < D / 16; ++n) {
      uint32_t b[4];
      loadMatrices<true>(b, rows + k * 16 * kRow<D> + offsetOfA<D>() + n * 16);
      multiplyAdd<T>(sums[2 * n], a, {b[0], b[1]});
      multiplyAdd<T>(sums[2 * n + 1], a, {b[2], b[3]});
    }
  }
}

// Writes the warp's 16 rows by way of shared memory that only this warp uses: 16 × kRow elements at `scratch`. factors:
// of rows g and g + 8.
template <int D, typename T>
__device__ inline void storeRows(const float (&sums)[D / 8][4], const float (&factors)[2], T *scratch, T *to,
                                 int64_t stride, int64_t rowsLeft, int64_t headDim) {
  const int lane = laneOfWarp(), g = lane / 4, t = lane % 4;
  __syncwarp();
  HYC_UNROLL
  for (int n = 0; n < D / 8; ++n) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t pair = packPair<T>(sums[n][2 * half] * factors[half], sums[n][2 * half + 1] * factors[half]);
      *reinterpret_cast<uint32_t *>(scratch + (g + 8 * half) * kRow<D> + n * 8 + 2 * t) = pair;
    }
  }
  __syncwarp();
  constexpr int kChunk = 8, kChunks = D / kChunk;
  for (int i = lane; i < kWarpRows * kChunks; i += kWarp) {
    const int r = i / kChunks, c = i % kChunks * kChunk;
    if (r < rowsLeft && c < headDim) storePack(to + r * stride + c, loadPack<kChunk>(scratch + r * kRow<D> + c));
  }
}

}  // namespace hyc::kernels::cuda::attention

#endif  // HYC_KERNELS_ATTENTION_CUDA_TENSOR_H_
