// Tiles for attention on tensor cores. A block's four warps share out the rows of its own side, 16 · M each; the rows
// of the other side come through shared memory, a tile at a time. Heads are filled up with zeros to D dimensions.
//
// The surprise: rows are not padded. The eight chunks of 16 bytes that lie at a multiple of 128 bytes in row r have
// changed places by XOR with r % 8, so that the eight rows of one ldmatrix meet different banks.
#ifndef HYC_KERNELS_ATTENTION_CUDA_TENSOR_H_
#define HYC_KERNELS_ATTENTION_CUDA_TENSOR_H_

#include "kernels/attention/cuda_tile.h"
#include "kernels/cuda/tensor_core.h"

#ifdef __CUDACC__
#define HYC_UNROLL _Pragma("unroll")
#define HYC_UNROLL_BY_FOUR _Pragma("unroll 4")
#else
#define HYC_UNROLL
#define HYC_UNROLL_BY_FOUR
#endif

namespace hyc::kernels::cuda::attention {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int kMmaRows = 16;  // of one product; a warp's own rows are M times as many
constexpr int kChunk = 8;     // elements in 16 bytes
constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

// Where an element of a tile lies.
template <int D>
__device__ inline int tileOffset(int row, int column) {
  return row * D + ((column / kChunk ^ row % 8) * kChunk + column % kChunk);
}

// What this thread copies of a tensor's rows of one sample and head: the same chunk of every kRowsAtOnce-th row. Tiles
// follow each other from row `first` on, with zeros beyond the tensor.
template <int D, typename T>
class RowCopies {
 public:
  __device__ RowCopies(const T *base, const HeadStrides &s, int64_t b, int64_t head, int first, int length, int headDim)
      : from_(base + b * s.batch + head * s.head + (first + row()) * s.token + column()),
        left_(column() < headDim ? length - first - row() : 0) {}

  // Asks for the next kRows rows; the caller commits and waits. All threads of the block.
  template <int kRows>
  __device__ void next(T *tile, int64_t stride) {
    T *to = tile + tileOffset<D>(row(), column());
    HYC_UNROLL
    for (int r = 0; r < kRows; r += kRowsAtOnce) {
      copyAsync(to + r * D, from_, r < left_);
      from_ += kRowsAtOnce * stride;
    }
    left_ -= kRows;
  }

 private:
  static constexpr int kChunks = D / kChunk, kRowsAtOnce = kThreads / kChunks;
  __device__ static int row() { return static_cast<int>(threadIdx.x) / kChunks; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % kChunks * kChunk; }

  const T *from_;
  int left_;  // rows from this thread's next one on
};

// Where this lane points in the 8 × 8 tiles of an A operand or of rows as B (transposed product), and of rows as B:
// bytes from the tile's first row, which begins at a multiple of a row. Column k, a multiple of 16, is at that XOR 2k,
// so that what walks over columns needs one number a tile and not one a column.
__device__ inline int laneOfWarp() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int warpOfBlock() { return static_cast<int>(threadIdx.x) / kWarp; }
template <int D>
__device__ inline int bytesToA() {
  const int lane = laneOfWarp(), m = lane / 8;
  return 2 * tileOffset<D>(m % 2 * 8 + lane % 8, m / 2 * 8);
}
template <int D>
__device__ inline int bytesToRowsAsColumns() {
  const int lane = laneOfWarp(), m = lane / 8;
  return 2 * tileOffset<D>(m / 2 * 8 + lane % 8, m % 2 * 8);
}

// 16 · M rows with 8 · N columns: C tiles side by side.
template <int M, int N>
using Tiles = float[M][N][4];

// The warp's rows in 16 columns as A operands. own: where the rows are in `memory`, plus bytesToA.
template <int D, int M>
__device__ inline void loadOperands(uint32_t (&a)[M][4], const unsigned char *memory, int own, int column) {
  HYC_UNROLL
  for (int m = 0; m < M; ++m) loadMatrices<false>(a[m], memory + (own ^ 2 * column) + 2 * m * kMmaRows * D);
}
// scores += a · those columns of 8 · N other rows, transposed. other: where the rows are, plus bytesToRowsAsColumns.
template <int D, typename T, int M, int N>
__device__ inline void addProductOfColumns(float (&scores)[M][N][4], const uint32_t (&a)[M][4],
                                           const unsigned char *memory, int other, int column) {
  HYC_UNROLL
  for (int n = 0; n < N; n += 2) {
    uint32_t b[4];
    loadMatrices<false>(b, memory + (other ^ 2 * column) + 2 * n * 8 * D);
    HYC_UNROLL
    for (int m = 0; m < M; ++m) {
      multiplyAdd<T>(scores[m][n], a[m], {b[0], b[1]});
      multiplyAdd<T>(scores[m][n + 1], a[m], {b[2], b[3]});
    }
  }
}
// scores += own · otherᵀ.
template <int D, typename T, int M, int N>
__device__ inline void addProductOfRows(float (&scores)[M][N][4], const unsigned char *memory, int own, int other) {
  HYC_UNROLL
  for (int k = 0; k < D; k += 16) {
    uint32_t a[M][4];
    loadOperands<D>(a, memory, own, k);
    addProductOfColumns<D, T>(scores, a, memory, other, k);
  }
}

// sums += weights · rows: weights 16 · M × 8 · N rounded to T; rows: where 8 · N of them are, plus bytesToA.
template <int D, typename T, int M, int N>
__device__ inline void addWeightedRows(float (&sums)[M][D / 8][4], const float (&weights)[M][N][4],
                                       const unsigned char *memory, int rows) {
  HYC_UNROLL
  for (int k = 0; k < N; k += 2) {
    uint32_t a[M][4];
    HYC_UNROLL
    for (int m = 0; m < M; ++m) {
      HYC_UNROLL
      for (int i = 0; i < 4; ++i)
        a[m][i] = packPair<T>(weights[m][k + i / 2][i % 2 * 2], weights[m][k + i / 2][i % 2 * 2 + 1]);
    }
    HYC_UNROLL
    for (int n = 0; n < D / 8; n += 2) {
      uint32_t b[4];
      loadMatrices<true>(b, memory + (rows ^ 2 * n * 8) + 2 * k * 8 * D);
      HYC_UNROLL
      for (int m = 0; m < M; ++m) {
        multiplyAdd<T>(sums[m][n], a[m], {b[0], b[1]});
        multiplyAdd<T>(sums[m][n + 1], a[m], {b[2], b[3]});
      }
    }
  }
}

// Writes the warp's rows by way of shared memory that only this warp uses: 16 · M × D elements at `scratch`. factors:
// of rows g and g + 8 of each 16.
template <int D, typename T, int M>
__device__ inline void storeRows(const float (&sums)[M][D / 8][4], const float (&factors)[M][2], T *scratch, T *to,
                                 int64_t stride, int rowsLeft, int headDim) {
  const int lane = laneOfWarp(), g = lane / 4, t = lane % 4;
  __syncwarp();
  HYC_UNROLL
  for (int m = 0; m < M; ++m) {
    HYC_UNROLL
    for (int n = 0; n < D / 8; ++n) {
      HYC_UNROLL
      for (int half = 0; half < 2; ++half) {
        const uint32_t pair =
            packPair<T>(sums[m][n][2 * half] * factors[m][half], sums[m][n][2 * half + 1] * factors[m][half]);
        T *at = scratch + tileOffset<D>(m * kMmaRows + 8 * half + g, n * 8 + 2 * t);
        *reinterpret_cast<uint32_t *>(at) = pair;
      }
    }
  }
  __syncwarp();
  constexpr int kChunks = D / kChunk;
  for (int i = lane; i < M * kMmaRows * kChunks; i += kWarp) {
    const int r = i / kChunks, c = i % kChunks * kChunk;
    if (r < rowsLeft && c < headDim) storePack(to + r * stride + c, loadPack<kChunk>(scratch + tileOffset<D>(r, c)));
  }
}

}  // namespace hyc::kernels::cuda::attention

#endif  // HYC_KERNELS_ATTENTION_CUDA_TENSOR_H_
