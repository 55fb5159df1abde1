// Cross entropy on GPUs: a block a token, and one block for the sum over tokens, whose tree depends on their number
// alone.
#include "kernels/cross_entropy/cuda.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/math/math.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The desc with this rank's part of the vocabulary filled in.
__device__ inline CrossEntropyDesc resolve(CrossEntropyDesc d, const VocabularyShard &shard) {
  if (!shard.first) return d;
  const int64_t left = shard.vocabulary - *shard.first;
  d.vocabStart = *shard.first;
  d.localVocab = left < 0 ? 0 : left < shard.columns ? left : shard.columns;
  if (d.ld == 0) d.ld = shard.columns;
  return d;
}

// The label's column among the local ones, or −1.
__device__ inline int64_t localLabel(const CrossEntropyDesc &d, int64_t label) {
  const bool local = label != d.ignoreIndex && label >= d.vocabStart && label - d.vocabStart < d.localVocab;
  return local ? label - d.vocabStart : -1;
}

// Whole packs first, then what is left, an element a thread.
template <typename T, typename Use>
__device__ void forElements(const T *row, int64_t n, bool isPacked, Use use) {
  constexpr int kPack = kPackSize<T>;
  const int64_t packed = isPacked ? n / kPack * kPack : 0;
  for (int64_t i = int64_t{threadIdx.x} * kPack; i < packed; i += int64_t{kThreads} * kPack) {
    const Pack<T, kPack> pack = loadPack<kPack>(row + i);
    for (int j = 0; j < kPack; ++j) use(static_cast<float>(pack.at[j]));
  }
  for (int64_t i = packed + threadIdx.x; i < n; i += kThreads) use(static_cast<float>(row[i]));
}

template <typename T>
__device__ float maxOfRow(const T *row, int64_t n, bool isPacked, float *scratch) {
  float most = -__builtin_inff();
  forElements(row, n, isPacked, [&](float x) { most = x > most || x != x ? x : most; });
  return blockMax(most, scratch);
}
template <typename T>
__device__ float sumOfExponentials(const T *row, int64_t n, bool isPacked, float shift, float *scratch) {
  float sum = 0;
  forElements(row, n, isPacked, [&](float x) { sum += math::exp(x - shift); });
  return blockSum(sum, scratch);
}

template <typename T>
__device__ bool isPackedRow(const CrossEntropyDesc &d, const T *logits) {
  return isPackable(d.rowStride() * int64_t{sizeof(T)}, logits);
}

template <typename T>
__global__ void forwardKernel(CrossEntropyDesc d, const T *logits, const int64_t *labels, float *lse, float *picked) {
  __shared__ float scratch[kMostWarps];
  const int64_t t = blockIdx.x, column = localLabel(d, labels[t]);
  const T *row = logits + t * d.rowStride();
  const bool isPacked = isPackedRow(d, logits);
  const float max = maxOfRow(row, d.localVocab, isPacked, scratch);
  const float sum = sumOfExponentials(row, d.localVocab, isPacked, max, scratch);
  if (threadIdx.x != 0) return;
  lse[t] = math::log(sum) + max;
  picked[t] = column >= 0 ? static_cast<float>(row[column]) : 0.0f;
}

template <typename T>
__global__ void rowMaxKernel(CrossEntropyDesc desc, VocabularyShard shard, const T *logits, float *rowMax) {
  __shared__ float scratch[kMostWarps];
  const CrossEntropyDesc d = resolve(desc, shard);
  const int64_t t = blockIdx.x;
  const float max = maxOfRow(logits + t * d.rowStride(), d.localVocab, isPackedRow(d, logits), scratch);
  if (threadIdx.x == 0) rowMax[t] = max;
}

template <typename T>
__global__ void sumExpKernel(CrossEntropyDesc desc, VocabularyShard shard, const T *logits, const int64_t *labels,
                             const float *rowMax, float *sumExp, float *picked) {
  __shared__ float scratch[kMostWarps];
  const CrossEntropyDesc d = resolve(desc, shard);
  const int64_t t = blockIdx.x, column = localLabel(d, labels[t]);
  const T *row = logits + t * d.rowStride();
  const float sum = sumOfExponentials(row, d.localVocab, isPackedRow(d, logits), rowMax[t], scratch);
  if (threadIdx.x != 0) return;
  sumExp[t] = sum;
  picked[t] = column >= 0 ? static_cast<float>(row[column]) : 0.0f;
}

// With sumExp and rowMax lse is made first, which may be any of the inputs: each thread reads its tokens' before it
// writes them.
__global__ void lossKernel(CrossEntropyDesc d, const int64_t *labels, const float *rowMax, const float *sumExp,
                           const float *picked, float *lse, float *lossSum, int64_t *count) {
  __shared__ double sums[kMostWarps];
  __shared__ int64_t counts[kMostWarps];
  double sum = 0;
  int64_t counted = 0;
  for (int64_t t = threadIdx.x; t < d.tokens; t += blockDim.x) {
    const float tokenPicked = picked[t], tokenLse = sumExp ? math::log(sumExp[t]) + rowMax[t] : lse[t];
    if (sumExp) lse[t] = tokenLse;
    if (labels[t] == d.ignoreIndex) continue;
    sum += static_cast<double>(tokenLse) - static_cast<double>(tokenPicked);
    ++counted;
  }
  sum = blockSum(sum, sums);
  counted = blockSum(counted, counts);
  if (threadIdx.x != 0) return;
  *lossSum = static_cast<float>(sum);
  *count = counted;
}

template <typename T>
__global__ void gradientKernel(CrossEntropyDesc desc, VocabularyShard shard, const T *logits, const int64_t *labels,
                               const float *lse, const float *scale, T *dlogits) {
  constexpr int kPack = kPackSize<T>;
  const CrossEntropyDesc d = resolve(desc, shard);
  const int64_t t = blockIdx.x, label = labels[t], column = localLabel(d, label), width = d.rowStride();
  const int64_t vocabulary = label == d.ignoreIndex ? 0 : d.localVocab;
  const float factor = *scale, shift = lse[t];
  const T *row = logits + t * width;
  T *out = dlogits + t * width;
  const auto gradient = [&](float x, int64_t v) {
    if (v >= vocabulary) return 0.0f;
    const float p = math::exp(x - shift);
    return factor * (v == column ? p - 1.0f : p);
  };
  const int64_t packed = isPackable(width * int64_t{sizeof(T)}, logits, dlogits) ? width / kPack * kPack : 0;
  for (int64_t v = int64_t{threadIdx.x} * kPack; v < packed; v += int64_t{kThreads} * kPack) {
    Pack<T, kPack> pack = loadPack<kPack>(row + v);
    for (int j = 0; j < kPack; ++j) pack.at[j] = T(gradient(pack.at[j], v + j));
    storePack(out + v, pack);
  }
  for (int64_t v = packed + threadIdx.x; v < width; v += kThreads) out[v] = T(gradient(row[v], v));
}

Grid aBlockAToken(const CrossEntropyDesc &d) { return {dim3(static_cast<unsigned>(d.tokens)), dim3(kThreads)}; }
Grid oneBlock() { return {dim3(1), dim3(1024)}; }

}  // namespace

template <typename T>
void crossEntropyForward(Stream stream, const CrossEntropyDesc &d, const T *logits, const int64_t *labels, float *lse,
                         float *picked, float *lossSum, int64_t *count) {
  kernel(forwardKernel<T>).launch(stream, aBlockAToken(d), d, logits, labels, lse, picked);
  kernel(lossKernel).launch(stream, oneBlock(), d, labels, nullptr, nullptr, picked, lse, lossSum, count);
}

template <typename T>
void crossEntropyRowMax(Stream stream, const CrossEntropyDesc &d, const VocabularyShard &shard, const T *logits,
                        float *rowMax) {
  kernel(rowMaxKernel<T>).launch(stream, aBlockAToken(d), d, shard, logits, rowMax);
}

template <typename T>
void crossEntropySumExp(Stream stream, const CrossEntropyDesc &d, const VocabularyShard &shard, const T *logits,
                        const int64_t *labels, const float *rowMax, float *sumExp, float *picked) {
  kernel(sumExpKernel<T>).launch(stream, aBlockAToken(d), d, shard, logits, labels, rowMax, sumExp, picked);
}

void crossEntropyCombine(Stream stream, const CrossEntropyDesc &d, const int64_t *labels, const float *rowMax,
                         const float *sumExp, const float *picked, float *lse, float *lossSum, int64_t *count) {
  kernel(lossKernel).launch(stream, oneBlock(), d, labels, rowMax, sumExp, picked, lse, lossSum, count);
}

template <typename T>
void crossEntropyGrad(Stream stream, const CrossEntropyDesc &d, const VocabularyShard &shard, const T *logits,
                      const int64_t *labels, const float *lse, const float *scale, T *dlogits) {
  kernel(gradientKernel<T>).launch(stream, aBlockAToken(d), d, shard, logits, labels, lse, scale, dlogits);
}

#define HYC_INSTANTIATE(T)                                                                                             \
  template void crossEntropyForward<T>(Stream, const CrossEntropyDesc &, const T *, const int64_t *, float *, float *, \
                                       float *, int64_t *);                                                            \
  template void crossEntropyRowMax<T>(Stream, const CrossEntropyDesc &, const VocabularyShard &, const T *, float *);  \
  template void crossEntropySumExp<T>(Stream, const CrossEntropyDesc &, const VocabularyShard &, const T *,            \
                                      const int64_t *, const float *, float *, float *);                               \
  template void crossEntropyGrad<T>(Stream, const CrossEntropyDesc &, const VocabularyShard &, const T *,              \
                                    const int64_t *, const float *, const float *, T *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
