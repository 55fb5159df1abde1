// Embedding on GPUs. The gradient needs neither atomics nor sorting: each token is linked to the next one of its row,
// and the first of a row adds all of them in their order, a few columns a thread. Links are found by comparing all
// pairs of tokens, from shared memory: two instructions a pair.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/embedding/cuda.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kLinkThreads = 128, kColumnThreads = 64;
constexpr int kLookAhead = 8;  // rows that are under way at once

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

// next[t]: the next token with the row of token t, or −1. hasPrevious[t]: 1 if one before t has it; all 0 before.
__global__ void linkKernel(EmbeddingDesc d, const int64_t *start, const int64_t *ids, int32_t *next,
                           int32_t *hasPrevious) {
  __shared__ int32_t rows[kLinkThreads];
  const int64_t own = int64_t{blockIdx.x} * kLinkThreads, token = own + threadIdx.x;
  const int64_t first = start ? *start : d.start;
  const auto rowOf = [&](int64_t t) {
    return t < d.tokens ? static_cast<int32_t>(localRow(d, first, ids[t])) : int32_t{-1};
  };
  const int32_t row = rowOf(token);
  int32_t found = -1;
  // From the end on, so that what is found last is the nearest.
  for (int64_t begin = (d.tokens - 1) / kLinkThreads * kLinkThreads; begin >= own; begin -= kLinkThreads) {
    __syncthreads();
    rows[threadIdx.x] = rowOf(begin + threadIdx.x);
    __syncthreads();
    const int last = begin == own ? static_cast<int>(threadIdx.x) + 1 : 0;
#pragma unroll 16
    for (int i = kLinkThreads - 1; i >= 0; --i)
      if (rows[i] == row && i >= last) found = static_cast<int32_t>(begin) + i;
  }
  if (row < 0) return;
  next[token] = found;
  if (found >= 0) hasPrevious[found] = 1;
}

// n columns a thread: blocks of columns in y.
template <int n, typename T>
__device__ void addTokens(const EmbeddingDesc &d, int64_t token, const int32_t *next, const T *dout, float *to) {
  for (int64_t c = (int64_t{blockIdx.y} * kColumnThreads + threadIdx.x) * n; c < d.width;
       c += int64_t{gridDim.y} * kColumnThreads * n) {
    Pack<float, n> sum = loadPack<n>(to + c);
    for (int64_t t = token; t >= 0;) {
      Pack<T, n> terms[kLookAhead];
      int count = 0;
#pragma unroll
      for (int i = 0; i < kLookAhead; ++i)
        if (t >= 0) {
          terms[i] = loadPack<n>(dout + t * d.width + c);
          t = next[t];
          count = i + 1;
        }
#pragma unroll
      for (int i = 0; i < kLookAhead; ++i)
        if (i < count)
          for (int j = 0; j < n; ++j) sum.at[j] += static_cast<float>(terms[i].at[j]);
    }
    storePack(to + c, sum);
  }
}

template <typename T>
__global__ void gradientKernel(EmbeddingDesc d, const int64_t *start, const int64_t *ids, const int32_t *next,
                               const int32_t *hasPrevious, const T *dout, float *dtable) {
  const int64_t token = blockIdx.x, row = localRow(d, start ? *start : d.start, ids[token]);
  if (row < 0 || hasPrevious[token]) return;
  float *to = dtable + row * d.width;
  if (d.width % 4 == 0 && isPackable(0, dout, dtable))
    addTokens<4>(d, token, next, dout, to);
  else
    addTokens<1>(d, token, next, dout, to);
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
  int32_t *next = static_cast<int32_t *>(workspace), *hasPrevious = next + d.tokens;
  cudaMemsetAsync(hasPrevious, 0, static_cast<size_t>(d.tokens) * sizeof(int32_t), stream);
  const Grid links{dim3(static_cast<unsigned>((d.tokens + kLinkThreads - 1) / kLinkThreads)), dim3(kLinkThreads)};
  kernel(linkKernel).launch(stream, links, d, start, ids, next, hasPrevious);
  constexpr int64_t kMostSlices = 65535, kColumns = kColumnThreads * 4;
  const int64_t slices = (d.width + kColumns - 1) / kColumns;
  const Grid grid{
      dim3(static_cast<unsigned>(d.tokens), static_cast<unsigned>(slices < kMostSlices ? slices : kMostSlices)),
      dim3(kColumnThreads)};
  kernel(gradientKernel<T>).launch(stream, grid, d, start, ids, next, hasPrevious, dout, dtable);
}

#define HYC_INSTANTIATE(T)                                                                                            \
  template void embedding<T>(Stream, const EmbeddingDesc &, const int64_t *, const int64_t *, const T *, T *);        \
  template void embeddingGrad<T>(Stream, const EmbeddingDesc &, const int64_t *, const int64_t *, const T *, float *, \
                                 WriteMode, void *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
