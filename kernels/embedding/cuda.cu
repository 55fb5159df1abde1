// Embedding on GPUs. The gradient needs neither atomics nor sorting: the block of a token does the work of its row if
// no earlier token has that row, and adds all tokens that do, in their order. Most blocks look at a few ids and end.
#include "kernels/cuda/equal_ids.h"
#include "kernels/cuda/launch.h"
#include "kernels/embedding/cuda.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kThreads = 256;
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

template <typename T>
__global__ void gradientKernel(EmbeddingDesc d, const int64_t *start, const int64_t *ids, const T *dout,
                               float *dtable) {
  __shared__ int64_t list[kThreads];
  const int64_t token = blockIdx.x, id = ids[token], row = localRow(d, start ? *start : d.start, id);
  if (row < 0 || isRepeated<kThreads>(ids, token)) return;
  for (int64_t begin = token / kThreads * kThreads; begin < d.tokens; begin += kThreads) {
    const int count = collectEqual<kThreads>(ids, d.tokens, begin, id, list);
    if (count == 0) continue;
    for (int64_t c = threadIdx.x; c < d.width; c += kThreads) {
      float sum = dtable[row * d.width + c];
      int i = 0;
      for (; i + kLookAhead <= count; i += kLookAhead) {
        float terms[kLookAhead];
        for (int j = 0; j < kLookAhead; ++j) terms[j] = dout[list[i + j] * d.width + c];
        for (int j = 0; j < kLookAhead; ++j) sum += terms[j];
      }
      for (; i < count; ++i) sum += dout[list[i] * d.width + c];
      dtable[row * d.width + c] = sum;
    }
  }
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
                   float *dtable, WriteMode mode) {
  if (mode == WriteMode::kOverwrite)
    cudaMemsetAsync(dtable, 0, static_cast<size_t>(d.rows * d.width) * sizeof(float), stream);
  const Grid grid{dim3(static_cast<unsigned>(d.tokens)), dim3(kThreads)};
  kernel(gradientKernel<T>).launch(stream, grid, d, start, ids, dout, dtable);
}

#define HYC_INSTANTIATE(T)                                                                                            \
  template void embedding<T>(Stream, const EmbeddingDesc &, const int64_t *, const int64_t *, const T *, T *);        \
  template void embeddingGrad<T>(Stream, const EmbeddingDesc &, const int64_t *, const int64_t *, const T *, float *, \
                                 WriteMode);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
