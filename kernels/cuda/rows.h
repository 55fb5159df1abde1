// What normalizations on GPUs share: a row a warp or a block, read once where it fits into registers, and sums over
// rows by blocks of rows whose number depends on the shape alone.
#ifndef HYC_KERNELS_CUDA_ROWS_H_
#define HYC_KERNELS_CUDA_ROWS_H_

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda {

constexpr int kHeldElements = 32, kFewElements = 8;  // of a row, by each of its threads
constexpr int kRowWarps = 4, kRowThreads = 256;

// A warp a row. kPack elements an access, kHeld accesses a thread kept in registers.
template <int pack>
struct WarpRows {
  static constexpr int kPack = pack, kHeld = kHeldElements / pack, kThreads = kWarp, kRowsAtOnce = kRowWarps;
  static Grid grid(int64_t rows) { return gridOfBlocks((rows + kRowWarps - 1) / kRowWarps); }
  static Grid gridOfBlocks(int64_t blocks) { return {dim3(static_cast<unsigned>(blocks)), dim3(kRowWarps * kWarp)}; }
  // Of the rows that a block does at once, this thread's.
  __device__ static int64_t rowOfBlock() { return threadIdx.x / kWarp; }
  __device__ static int64_t row() { return int64_t{blockIdx.x} * kRowWarps + rowOfBlock(); }
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % kWarp; }
  __device__ static float sum(float value) { return warpSum(value); }
};
// A block a row. kHeld is 0 where a row is read anew by each pass over it.
template <int pack, int heldElements>
struct BlockRows {
  static constexpr int kPack = pack, kHeld = heldElements / pack, kThreads = kRowThreads, kRowsAtOnce = 1;
  static Grid grid(int64_t rows) { return gridOfBlocks(rows); }
  static Grid gridOfBlocks(int64_t blocks) { return {dim3(static_cast<unsigned>(blocks)), dim3(kRowThreads)}; }
  __device__ static int64_t rowOfBlock() { return 0; }
  __device__ static int64_t row() { return blockIdx.x; }
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static float sum(float value) {
    __shared__ float scratch[kMostWarps];
    return blockSum(value, scratch);
  }
};

// Calls launch(rows) with who does a row of `cols` elements of T, which can be read in packs where isPacked.
template <typename T, typename Launch>
void chooseRows(int64_t cols, bool isPacked, Launch launch) {
  constexpr int kPack = kPackSize<T>;
  if (!isPacked) return launch(BlockRows<1, 0>());
  if (cols <= kWarp * kHeldElements) return launch(WarpRows<kPack>());
  // Fewer registers, so that more rows are under way at once.
  if (cols <= kRowThreads * kFewElements) return launch(BlockRows<kPack, kFewElements>());
  if (cols <= kRowThreads * kHeldElements) return launch(BlockRows<kPack, kHeldElements>());
  launch(BlockRows<kPack, 0>());
}

// This thread's part of one row.
template <typename Rows, typename T>
class RowElements {
 public:
  static constexpr int kPack = Rows::kPack;

  __device__ RowElements(const T *x, int64_t cols) : x(x), cols(cols) {
#pragma unroll
    for (int k = 0; k < Rows::kHeld; ++k)
      if (first(k) < cols) held[k] = loadPack<kPack>(x + first(k));
  }
  // Calls use(c, pack of elements c …) for each of its packs.
  template <typename Use>
  __device__ void forEach(const Use &use) const {
    if constexpr (Rows::kHeld > 0) {
#pragma unroll
      for (int k = 0; k < Rows::kHeld; ++k)
        if (first(k) < cols) use(first(k), held[k]);
    } else {
      for (int64_t c = first(0); c < cols; c += Rows::kThreads * kPack) use(c, loadPack<kPack>(x + c));
    }
  }
  // The same for two rows of one length: use(k, c, …) of the k-th pack, where packs are held.
  template <typename Use>
  __device__ void forEachWith(const RowElements &other, const Use &use) const {
    if constexpr (Rows::kHeld > 0) {
#pragma unroll
      for (int k = 0; k < Rows::kHeld; ++k)
        if (first(k) < cols) use(k, first(k), held[k], other.held[k]);
    } else {
      for (int64_t c = first(0); c < cols; c += Rows::kThreads * kPack)
        use(0, c, loadPack<kPack>(x + c), loadPack<kPack>(other.x + c));
    }
  }

  // The first element of the k-th pack of this thread.
  __device__ static int64_t first(int k) { return (int64_t{k} * Rows::kThreads + Rows::thread()) * kPack; }

 private:
  const T *x;
  int64_t cols;
  Pack<T, kPack> held[Rows::kHeld > 0 ? Rows::kHeld : 1];
};

// n parameters from 16-byte aligned memory, or any where n is 1; all `otherwise` where there are none.
template <int n>
__device__ inline Pack<float, n> loadParameters(const float *from, int64_t c, float otherwise) {
  Pack<float, n> all;
  constexpr int kPart = n < 4 ? n : 4;
#pragma unroll
  for (int i = 0; i < n; i += kPart) {
    Pack<float, kPart> part;
    if (from) part = loadPack<kPart>(from + c + i);
#pragma unroll
    for (int j = 0; j < kPart; ++j) all.at[i + j] = from ? part.at[j] : otherwise;
  }
  return all;
}

// For sums over rows: tiles of pairs of columns by blocks of rows, kRowTile threads a pair.
constexpr int kColumnTile = 32, kRowTile = 16;

inline Grid gridOfColumnSums(int64_t cols, int64_t blocks) {
  return {dim3(static_cast<unsigned>((cols + 2 * kColumnTile - 1) / (2 * kColumnTile)), static_cast<unsigned>(blocks)),
          dim3(kColumnTile, kRowTile)};
}

// Calls use(row, two of x, two of dy) for every kRowTile-th row of `first` … `end` from this thread's on, columns c and
// c + 1; the second of them is 0 where it is beyond `cols`. Four rows are loaded before the first is used.
template <typename T, typename Use>
__device__ void forColumnPair(const T *x, const T *dy, int64_t cols, int64_t c, int64_t first, int64_t end,
                              const Use &use) {
  constexpr int kAhead = 4;
  if (c >= cols) return;
  const bool isPaired =
      cols % 2 == 0 && ((reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(dy)) & (2 * sizeof(T) - 1)) == 0;
  const auto load = [&](const T *from) {
    if (isPaired) return loadPack<2>(from);
    Pack<T, 2> pair;
    pair.at[0] = from[0];
    pair.at[1] = c + 1 < cols ? from[1] : T(0.0f);
    return pair;
  };
  for (int64_t row = first + threadIdx.y; row < end; row += kAhead * kRowTile) {
    Pack<T, 2> xs[kAhead], dys[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (row + i * kRowTile < end) {
        xs[i] = load(x + (row + i * kRowTile) * cols + c);
        dys[i] = load(dy + (row + i * kRowTile) * cols + c);
      }
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (row + i * kRowTile < end) use(row + i * kRowTile, xs[i], dys[i]);
  }
}

// The sums of a pair's threads in their order, in the first of them; all threads of the block call it.
template <int n>
__device__ void addRowTiles(float (&sums)[n]) {
  __shared__ float tiles[kRowTile][n][kColumnTile];
  for (int i = 0; i < n; ++i) tiles[threadIdx.y][i][threadIdx.x] = sums[i];
  __syncthreads();
  if (threadIdx.y != 0) return;
  for (int r = 1; r < kRowTile; ++r)
    for (int i = 0; i < n; ++i) sums[i] += tiles[r][i][threadIdx.x];
}

// Sums over the rows of a block while they are gone through one by one: a term for each element that a thread holds.
template <typename Rows, int vectors>
class HeldSums {
 public:
  __device__ float &at(int vector, int k, int i) { return sums[vector][k][i]; }

  // Adds those of a block's warps in their order, and writes them to `to`, [vectors, cols]. All threads call it, once.
  __device__ void store(int64_t cols, float *to) {
    if constexpr (Rows::kRowsAtOnce == 1) {
      forEach(cols, [&](int vector, int64_t c, float sum) { to[vector * cols + c] = sum; });
    } else {
      __shared__ float warps[vectors][kWarp * kHeldElements];
      for (int warp = 0; warp < Rows::kRowsAtOnce; ++warp) {
        __syncthreads();
        if (warp != Rows::rowOfBlock()) continue;
        forEach(cols, [&](int vector, int64_t c, float sum) {
          if (warp > 0) sum += warps[vector][c];
          if (warp + 1 < Rows::kRowsAtOnce)
            warps[vector][c] = sum;
          else
            to[vector * cols + c] = sum;
        });
      }
    }
  }

 private:
  template <typename Use>
  __device__ void forEach(int64_t cols, const Use &use) {
#pragma unroll
    for (int k = 0; k < Rows::kHeld; ++k) {
      const int64_t c = (int64_t{k} * Rows::kThreads + Rows::thread()) * Rows::kPack;
      if (c >= cols) continue;
#pragma unroll
      for (int vector = 0; vector < vectors; ++vector)
#pragma unroll
        for (int i = 0; i < Rows::kPack; ++i) use(vector, c + i, sums[vector][k][i]);
    }
  }

  float sums[vectors][Rows::kHeld][Rows::kPack] = {};
};

// The sums over blocks of rows, [blocks, count], for column c of a tile: in the first of its threads, whose block is
// [kColumnTile, kRowTile]; all of them call it.
__device__ inline float sumOfRowBlocks(int64_t count, int64_t blocks, const float *partial, int64_t c) {
  float sums[1] = {};
  if (c < count) {
#pragma unroll 8
    for (int64_t block = threadIdx.y; block < blocks; block += kRowTile) sums[0] += partial[block * count + c];
  }
  addRowTiles(sums);
  return sums[0];
}
inline Grid gridOfRowBlockSums(int64_t count) {
  return {dim3(static_cast<unsigned>((count + kColumnTile - 1) / kColumnTile)), dim3(kColumnTile, kRowTile)};
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_ROWS_H_
