// Embedding on GPUs. The gradient needs neither atomics nor sorting passes: a token's place among all, ordered by row
// and then as they come, is found by comparing it with each, from shared memory; then a few columns a thread add up a
// row's tokens, which lie side by side.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/embedding/cuda.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kColumnThreads = 64;
constexpr int kLookAhead = 16;  // rows that are under way at once
// Tokens of a block that finds places, threads that share one of them, and tokens that they compare it with at once.
constexpr int kOwn = 32, kSharers = 8, kTile = 1024;

// The table's row of an id, or −1 if it is not held here.
__device__ inline int64_t localRow(const EmbeddingDesc &d, int64_t start, int64_t id) {
  return id >= start && id - start < d.rows ? id - start : -1;
}

template <int n, typename T>
__device__ void copyRow(int64_t width, const T *from, T *to) {
  for (int64_t c = int64_t{threadIdx.x} * n; c < width; c += int64_t{blockDim.x} * n) {
    Pack<T, n> pack;
    if (from)
      pack = loadPack<n>(from + c);
    else
      for (int i = 0; i < n; ++i) pack.at[i] = T(0.0f);
    storePack(to + c, pack);
  }
}

template <typename T>
__global__ void lookupKernel(EmbeddingDesc d, const int64_t *start, const int64_t *ids, const T *table, T *out) {
  const int64_t token = blockIdx.x, row = localRow(d, start ? *start : d.start, ids[token]);
  const T *from = row >= 0 ? table + row * d.width : nullptr;
  if (isPackable(d.width * int64_t{sizeof(T)}, table, out))
    copyRow<kPackSize<T>>(d.width, from, out + token * d.width);
  else
    copyRow<1>(d.width, from, out + token * d.width);
}

// Of the tokens with a row held here, ordered by row and then as they come: order[p] is which is at place p, counts[p]
// how many there are with its row from p on where p is the first of them; all counts are 0 before. A warp is one
// token's kOwn neighbours, so that all its lanes read one element of shared memory.
__global__ void placeKernel(EmbeddingDesc d, const int64_t *start, const int64_t *ids, int32_t *order,
                            int32_t *counts) {
  __shared__ int32_t tile[kTile];
  __shared__ int32_t shares[kSharers][3][kOwn];
  const int own = static_cast<int>(threadIdx.x) % kOwn, sharer = static_cast<int>(threadIdx.x) / kOwn;
  const int64_t token = int64_t{blockIdx.x} * kOwn + own, first = start ? *start : d.start;
  const auto rowOf = [&](int64_t t) {
    return t < d.tokens ? static_cast<int32_t>(localRow(d, first, ids[t])) : int32_t{-1};
  };
  const int32_t row = rowOf(token);
  int32_t lower = 0, before = 0, equal = 0;
  for (int64_t begin = 0; begin < d.tokens; begin += kTile) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kOwn * kSharers) tile[i] = rowOf(begin + i);
    __syncthreads();
    const int64_t left = token - begin;
    const int mine = static_cast<int>(left < 0       ? 0
                                      : left > kTile ? kTile
                                                     : left);  // those of the tile before the token
#pragma unroll 8
    for (int i = sharer * (kTile / kSharers); i < (sharer + 1) * (kTile / kSharers); ++i) {
      lower += static_cast<uint32_t>(tile[i]) < static_cast<uint32_t>(row);  // −1, nobody's, is above all
      equal += tile[i] == row;
      before += tile[i] == row && i < mine;
    }
  }
  shares[sharer][0][own] = lower, shares[sharer][1][own] = before, shares[sharer][2][own] = equal;
  __syncthreads();
  if (sharer != 0 || row < 0) return;
  for (int i = 1; i < kSharers; ++i)
    lower += shares[i][0][own], before += shares[i][1][own], equal += shares[i][2][own];
  order[lower + before] = static_cast<int32_t>(token);
  if (before == 0) counts[lower] = equal;
}

// Adds `count` tokens of one row, n columns a thread: blocks of columns in y.
template <int n, typename T>
__device__ void addTokens(const EmbeddingDesc &d, const int32_t *tokens, int count, const T *dout, float *to) {
  for (int64_t c = (int64_t{blockIdx.y} * kColumnThreads + threadIdx.x) * n; c < d.width;
       c += int64_t{gridDim.y} * kColumnThreads * n) {
    Pack<float, n> sum = loadPack<n>(to + c);
    for (int begin = 0; begin < count; begin += kLookAhead) {
      Pack<T, n> terms[kLookAhead];
#pragma unroll
      for (int i = 0; i < kLookAhead; ++i)
        if (begin + i < count) terms[i] = loadPack<n>(dout + int64_t{tokens[begin + i]} * d.width + c);
#pragma unroll
      for (int i = 0; i < kLookAhead; ++i)
        if (begin + i < count)
          for (int j = 0; j < n; ++j) sum.at[j] += static_cast<float>(terms[i].at[j]);
    }
    storePack(to + c, sum);
  }
}

template <typename T>
__global__ void gradientKernel(EmbeddingDesc d, const int64_t *start, const int64_t *ids, const int32_t *order,
                               const int32_t *counts, const T *dout, float *dtable) {
  const int64_t place = blockIdx.x;
  const int32_t count = counts[place];
  if (count == 0) return;
  float *to = dtable + localRow(d, start ? *start : d.start, ids[order[place]]) * d.width;
  if (d.width % 4 == 0 && isPackable(0, dout, dtable))
    addTokens<4>(d, order + place, count, dout, to);
  else
    addTokens<1>(d, order + place, count, dout, to);
}

}  // namespace

template <typename T>
void embedding(Stream stream, const EmbeddingDesc &d, const int64_t *start, const int64_t *ids, const T *table,
               T *out) {
  const Grid grid{dim3(static_cast<unsigned>(d.tokens)), dim3(128)};
  kernel(lookupKernel<T>).launch(stream, grid, d, start, ids, table, out);
}

template <typename T>
void embeddingGrad(Stream stream, const EmbeddingDesc &d, const int64_t *start, const int64_t *ids, const T *dout,
                   float *dtable, WriteMode mode, void *workspace) {
  if (mode == WriteMode::kOverwrite)
    cudaMemsetAsync(dtable, 0, static_cast<size_t>(d.rows * d.width) * sizeof(float), stream);
  int32_t *order = static_cast<int32_t *>(workspace), *counts = order + d.tokens;
  cudaMemsetAsync(counts, 0, static_cast<size_t>(d.tokens) * sizeof(int32_t), stream);
  const Grid places{dim3(static_cast<unsigned>((d.tokens + kOwn - 1) / kOwn)), dim3(kOwn * kSharers)};
  kernel(placeKernel).launch(stream, places, d, start, ids, order, counts);
  constexpr int64_t kMostSlices = 65535, kColumns = kColumnThreads * 4;
  const int64_t slices = (d.width + kColumns - 1) / kColumns;
  const Grid grid{
      dim3(static_cast<unsigned>(d.tokens), static_cast<unsigned>(slices < kMostSlices ? slices : kMostSlices)),
      dim3(kColumnThreads)};
  kernel(gradientKernel<T>).launch(stream, grid, d, start, ids, order, counts, dout, dtable);
}

#define HYC_INSTANTIATE(T)                                                                                            \
  template void embedding<T>(Stream, const EmbeddingDesc &, const int64_t *, const int64_t *, const T *, T *);        \
  template void embeddingGrad<T>(Stream, const EmbeddingDesc &, const int64_t *, const int64_t *, const T *, float *, \
                                 WriteMode, void *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
