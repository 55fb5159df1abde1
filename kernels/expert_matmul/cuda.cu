// Products of rows with their experts' matrices on GPUs. Rows are sorted by expert without atomics: a block an expert
// counts its rows, then writes their numbers, each thread those of its part of all rows. A block then computes a tile
// of kExpertTile² results of one expert, whose rows and columns it walks through shared memory, 16 elements of each a
// thread.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/expert_matmul/cuda.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kSortThreads = 256, kTileThreads = 256;
constexpr int kDepth = 16, kOwn = 4;  // of a tile that is multiplied at a time; results of a thread, each way
static_assert(kExpertTile * kExpertTile == kTileThreads * kOwn * kOwn);

// What the scratch memory is made of.
struct Places {
  int32_t *counts, *ends, *tileEnds;  // [experts]
  int32_t *sorted;                    // [rows]

  Places(const ExpertMatmulDesc &d, void *workspace)
      : counts(static_cast<int32_t *>(workspace)),
        ends(counts + d.experts),
        tileEnds(ends + d.experts),
        sorted(tileEnds + d.experts) {}
};

__device__ inline int64_t firstExpert(const ExpertMatmulDesc &d, const int64_t *start) {
  return start ? *start : d.start;
}

// This thread's part of all rows.
__device__ inline int64_t partBegin(int64_t rows, int thread) { return rows * thread / kSortThreads; }

__device__ inline int32_t countOwn(const ExpertMatmulDesc &d, const int64_t *ids, int64_t expert) {
  const int thread = static_cast<int>(threadIdx.x);
  int32_t count = 0;
  for (int64_t n = partBegin(d.rows, thread), end = partBegin(d.rows, thread + 1); n < end; ++n)
    count += ids[n] == expert;
  return count;
}

__global__ void countKernel(ExpertMatmulDesc d, const int64_t *start, const int64_t *ids, Places places) {
  __shared__ int32_t scratch[kMostWarps];
  const int32_t total = blockSum(countOwn(d, ids, firstExpert(d, start) + blockIdx.x), scratch);
  if (threadIdx.x == 0) places.counts[blockIdx.x] = total;
}

__global__ void placeKernel(ExpertMatmulDesc d, const int64_t *start, const int64_t *ids, Places places) {
  __shared__ int32_t begins[kSortThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t expert = firstExpert(d, start) + blockIdx.x;
  begins[thread] = countOwn(d, ids, expert);
  __syncthreads();
  if (thread == 0) {
    int32_t begin = 0, tiles = 0;
    const auto tilesOf = [&](int32_t count) { return (count + kExpertTile - 1) / kExpertTile; };
    for (unsigned e = 0; e < blockIdx.x; ++e) begin += places.counts[e], tiles += tilesOf(places.counts[e]);
    const int32_t own = places.counts[blockIdx.x];
    places.ends[blockIdx.x] = begin + own;
    places.tileEnds[blockIdx.x] = tiles + tilesOf(own);
    for (int t = 0; t < kSortThreads; ++t) {
      const int32_t count = begins[t];
      begins[t] = begin;
      begin += count;
    }
  }
  __syncthreads();
  int32_t at = begins[thread];
  for (int64_t n = partBegin(d.rows, thread), end = partBegin(d.rows, thread + 1); n < end; ++n)
    if (ids[n] == expert) places.sorted[at++] = static_cast<int32_t>(n);
}

template <typename T>
__global__ void clearKernel(ExpertMatmulDesc d, const int64_t *start, const int64_t *ids, T *y) {
  const int64_t expert = ids[blockIdx.x] - firstExpert(d, start);
  if (expert >= 0 && expert < d.experts) return;
  for (int64_t c = threadIdx.x; c < d.outputs; c += blockDim.x) y[int64_t{blockIdx.x} * d.outputs + c] = T(0.0f);
}

// A tile of up to kExpertTile rows, and kDepth of their elements, of a matrix: element(row, depth), 0 beyond the ends.
template <typename Element>
__device__ void loadTile(float (*tile)[kExpertTile + 1], int64_t rows, int64_t depth, const Element &element) {
  for (int i = static_cast<int>(threadIdx.x); i < kExpertTile * kDepth; i += kTileThreads) {
    const int row = i / kDepth, at = i % kDepth;
    tile[at][row] = row < rows && at < depth ? static_cast<float>(element(row, at)) : 0.0f;
  }
}

// sums[i][j] += Σ a[·][row i] · b[·][column j] of this thread's rows and columns.
__device__ inline void multiplyTiles(const float (*a)[kExpertTile + 1], const float (*b)[kExpertTile + 1],
                                     float (*sums)[kOwn]) {
  const int row = static_cast<int>(threadIdx.x) / (kExpertTile / kOwn),
            column = static_cast<int>(threadIdx.x) % (kExpertTile / kOwn);
  for (int k = 0; k < kDepth; ++k)
    for (int i = 0; i < kOwn; ++i)
      for (int j = 0; j < kOwn; ++j) sums[i][j] += a[k][row * kOwn + i] * b[k][column * kOwn + j];
}

// to(row, column, sum) of each result of this thread.
template <typename Store>
__device__ void storeTile(const float (*sums)[kOwn], int64_t rows, int64_t columns, const Store &store) {
  const int row = static_cast<int>(threadIdx.x) / (kExpertTile / kOwn),
            column = static_cast<int>(threadIdx.x) % (kExpertTile / kOwn);
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j)
      if (row * kOwn + i < rows && column * kOwn + j < columns) store(row * kOwn + i, column * kOwn + j, sums[i][j]);
}

__device__ inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Tiles of rows in x, of columns in y.
template <typename T>
__global__ void multiplyKernel(ExpertMatmulDesc d, Places places, const T *x, const T *w, T *y) {
  __shared__ float a[kDepth][kExpertTile + 1], b[kDepth][kExpertTile + 1];
  const int32_t tile = static_cast<int32_t>(blockIdx.x);
  int64_t e = 0;
  while (e < d.experts && tile >= places.tileEnds[e]) ++e;
  if (e == d.experts) return;  // there are blocks for as many tiles as there may be
  const int32_t firstTile = e ? places.tileEnds[e - 1] : 0, firstRow = e ? places.ends[e - 1] : 0;
  const int64_t begin = firstRow + int64_t{tile - firstTile} * kExpertTile, column = int64_t{blockIdx.y} * kExpertTile;
  const int64_t rows = least(kExpertTile, places.ends[e] - begin), columns = least(kExpertTile, d.outputs - column);
  const int32_t *sorted = places.sorted + begin;
  const T *matrix = w + e * d.inputs * d.outputs;
  float sums[kOwn][kOwn] = {};
  for (int64_t k = 0; k < d.inputs; k += kDepth) {
    const int64_t depth = least(kDepth, d.inputs - k);
    __syncthreads();  // whoever used the tiles before is done
    loadTile(a, rows, depth, [&](int row, int at) { return x[sorted[row] * d.inputs + k + at]; });
    loadTile(b, columns, depth, [&](int c, int at) {
      return d.transposed ? matrix[(column + c) * d.inputs + k + at] : matrix[(k + at) * d.outputs + column + c];
    });
    __syncthreads();
    multiplyTiles(a, b, sums);
  }
  storeTile(sums, rows, columns,
            [&](int row, int c, float sum) { y[sorted[row] * d.outputs + column + c] = static_cast<T>(sum); });
}

// Tiles of the matrix's rows in x, of its columns in y, experts in z. Of a matrix [inputs, outputs], or the other way
// round, left and right are x and dy, or dy and x.
template <typename T>
__global__ void gradientKernel(ExpertMatmulDesc d, Places places, const T *left, const T *right, int64_t height,
                               int64_t width, float *dw, bool adds) {
  __shared__ float a[kDepth][kExpertTile + 1], b[kDepth][kExpertTile + 1];
  const int64_t e = blockIdx.z, row = int64_t{blockIdx.x} * kExpertTile, column = int64_t{blockIdx.y} * kExpertTile;
  const int64_t rows = least(kExpertTile, height - row), columns = least(kExpertTile, width - column);
  float sums[kOwn][kOwn] = {};
  for (int64_t n = e ? places.ends[e - 1] : 0; n < places.ends[e]; n += kDepth) {
    const int64_t depth = least(kDepth, places.ends[e] - n);
    const int32_t *sorted = places.sorted + n;
    __syncthreads();
    loadTile(a, rows, depth, [&](int r, int at) { return left[sorted[at] * height + row + r]; });
    loadTile(b, columns, depth, [&](int c, int at) { return right[sorted[at] * width + column + c]; });
    __syncthreads();
    multiplyTiles(a, b, sums);
  }
  storeTile(sums, rows, columns, [&](int r, int c, float sum) {
    float *to = dw + (e * height + row + r) * width + column + c;
    *to = adds ? *to + sum : sum;
  });
}

unsigned tilesOf(int64_t size) { return static_cast<unsigned>((size + kExpertTile - 1) / kExpertTile); }

Places sortRows(Stream stream, const ExpertMatmulDesc &d, const int64_t *start, const int64_t *ids, void *workspace) {
  const Places places(d, workspace);
  const Grid experts{dim3(static_cast<unsigned>(d.experts)), dim3(kSortThreads)};
  kernel(countKernel).launch(stream, experts, d, start, ids, places);
  kernel(placeKernel).launch(stream, experts, d, start, ids, places);
  return places;
}

}  // namespace

template <typename T>
void expertMatmul(Stream stream, const ExpertMatmulDesc &d, const int64_t *start, const int64_t *ids, const T *x,
                  const T *w, T *y, void *workspace) {
  const Places places = sortRows(stream, d, start, ids, workspace);
  const Grid rows{dim3(static_cast<unsigned>(d.rows)), dim3(128)};
  kernel(clearKernel<T>).launch(stream, rows, d, start, ids, y);
  const Grid tiles{dim3(tilesOf(d.rows) + static_cast<unsigned>(d.experts), tilesOf(d.outputs)), dim3(kTileThreads)};
  kernel(multiplyKernel<T>).launch(stream, tiles, d, places, x, w, y);
}

template <typename T>
void expertMatmulGrad(Stream stream, const ExpertMatmulDesc &d, const int64_t *start, const int64_t *ids, const T *x,
                      const T *dy, float *dw, WriteMode mode, void *workspace) {
  const Places places = sortRows(stream, d, start, ids, workspace);
  const int64_t height = d.transposed ? d.outputs : d.inputs, width = d.transposed ? d.inputs : d.outputs;
  const Grid tiles{dim3(tilesOf(height), tilesOf(width), static_cast<unsigned>(d.experts)), dim3(kTileThreads)};
  kernel(gradientKernel<T>)
      .launch(stream, tiles, d, places, d.transposed ? dy : x, d.transposed ? x : dy, height, width, dw,
              mode != WriteMode::kOverwrite);
}

#define HYC_INSTANTIATE(T)                                                                                         \
  template void expertMatmul<T>(Stream, const ExpertMatmulDesc &, const int64_t *, const int64_t *, const T *,     \
                                const T *, T *, void *);                                                           \
  template void expertMatmulGrad<T>(Stream, const ExpertMatmulDesc &, const int64_t *, const int64_t *, const T *, \
                                    const T *, float *, WriteMode, void *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
