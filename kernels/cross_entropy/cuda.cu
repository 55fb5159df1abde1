// Cross entropy on GPUs: a block a token, and one block for the sum over tokens, whose tree depends on their number
// alone.
#include "kernels/cross_entropy/cuda.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/math/math.h"
#include "kernels/math/narrow.h"

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

// Elements of a row before the first address that is a multiple of 16; rows of an odd length begin anywhere.
template <typename T>
__device__ inline int headOf(const T *row) {
  const uintptr_t beyond = reinterpret_cast<uintptr_t>(row) & 15;
  return static_cast<int>(((16 - beyond) & 15) / sizeof(T));
}

// Calls usePack(i, pack of elements i …) for this thread's packs of a row and useOne(i, x) for its elements before the
// first whole pack and after the last.
template <typename T, typename UsePack, typename UseOne>
__device__ void forRow(const T *row, int n, const UsePack &usePack, const UseOne &useOne) {
  constexpr int kPack = kPackSize<T>;
  const int me = static_cast<int>(threadIdx.x), head = headOf(row) < n ? headOf(row) : n;
  const int end = head + (n - head) / kPack * kPack;
  if (me < head) useOne(me, row[me]);
  for (int i = head + me * kPack; i < end; i += kThreads * kPack) usePack(i, loadPack<kPack>(row + i));
  if (end + me < n) useOne(end + me, row[end + me]);
}

// e^x for x of at most 0, where one of logits of 16 bits is only as exact as they are.
template <typename T>
__device__ inline float exponential(float x) {
  if constexpr (sizeof(T) == 2)
    return math::narrow::exp2(x * 1.44269504f);
  else
    return math::exp(x);
}

__device__ inline float larger(float x, float y) { return y > x || y != y ? y : x; }  // NaN if either is

template <typename T>
__device__ float maxOfRow(const T *row, int n, float *scratch) {
  float most = -__builtin_inff();
  const auto useOne = [&](int, T x) { most = larger(most, x); };
  forRow(
      row, n,
      [&](int i, const Pack<T, kPackSize<T>> &pack) {
        for (int j = 0; j < kPackSize<T>; ++j) useOne(i + j, pack.at[j]);
      },
      useOne);
  return blockMax(most, scratch);
}
template <typename T>
__device__ float sumOfExponentials(const T *row, int n, float shift, float *scratch) {
  float sum = 0;
  const auto useOne = [&](int, T x) { sum += exponential<T>(x - shift); };
  forRow(
      row, n,
      [&](int i, const Pack<T, kPackSize<T>> &pack) {
        for (int j = 0; j < kPackSize<T>; ++j) useOne(i + j, pack.at[j]);
      },
      useOne);
  return blockSum(sum, scratch);
}

// The maximum of a row and Σ e^(x − maximum), read once: a thread's sum is taken down whenever its maximum goes up.
template <typename T>
__device__ float maxAndSumOfRow(const T *row, int n, float *sumOfRow, float *scratch) {
  float most = -__builtin_inff(), sum = 0;
  const auto raise = [&](float to) {
    if (to == most) return;
    sum *= exponential<T>(most - to);
    most = to;
  };
  forRow(
      row, n,
      [&](int, const Pack<T, kPackSize<T>> &pack) {
        float highest = most;
        for (int j = 0; j < kPackSize<T>; ++j) highest = larger(highest, pack.at[j]);
        raise(highest);
        if (most == -__builtin_inff()) return;  // nothing yet, and −∞ less −∞ is no number
        for (int j = 0; j < kPackSize<T>; ++j) sum += exponential<T>(pack.at[j] - most);
      },
      [&](int, T x) {
        raise(larger(most, x));
        if (most != -__builtin_inff()) sum += exponential<T>(x - most);
      });
  const float mostOfRow = blockMax(most, scratch);
  *sumOfRow = blockSum(sum * exponential<T>(most - mostOfRow), scratch);
  return mostOfRow;
}

template <typename T>
__global__ void forwardKernel(CrossEntropyDesc d, const T *logits, const int64_t *labels, float *lse, float *picked) {
  __shared__ float scratch[kMostWarps];
  const int64_t t = blockIdx.x, column = localLabel(d, labels[t]);
  const T *row = logits + t * d.rowStride();
  float sum = 0;
  const float max = maxAndSumOfRow(row, static_cast<int>(d.localVocab), &sum, scratch);
  if (threadIdx.x != 0) return;
  lse[t] = math::log(sum) + max;
  picked[t] = column >= 0 ? static_cast<float>(row[column]) : 0.0f;
}

template <typename T>
__global__ void rowMaxKernel(CrossEntropyDesc desc, VocabularyShard shard, const T *logits, float *rowMax) {
  __shared__ float scratch[kMostWarps];
  const CrossEntropyDesc d = resolve(desc, shard);
  const int64_t t = blockIdx.x;
  const float max = maxOfRow(logits + t * d.rowStride(), static_cast<int>(d.localVocab), scratch);
  if (threadIdx.x == 0) rowMax[t] = max;
}

template <typename T>
__global__ void sumExpKernel(CrossEntropyDesc desc, VocabularyShard shard, const T *logits, const int64_t *labels,
                             const float *rowMax, float *sumExp, float *picked) {
  __shared__ float scratch[kMostWarps];
  const CrossEntropyDesc d = resolve(desc, shard);
  const int64_t t = blockIdx.x, column = localLabel(d, labels[t]);
  const T *row = logits + t * d.rowStride();
  const float sum = sumOfExponentials(row, static_cast<int>(d.localVocab), rowMax[t], scratch);
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
  const int64_t t = blockIdx.x, label = labels[t];
  const int column = static_cast<int>(localLabel(d, label)), width = static_cast<int>(d.rowStride());
  const int vocabulary = label == d.ignoreIndex ? 0 : static_cast<int>(d.localVocab);
  const float factor = *scale, shift = lse[t];
  const T *row = logits + t * d.rowStride();
  T *out = dlogits + t * d.rowStride();
  const auto gradient = [&](float x, int v) {
    if (v >= vocabulary) return 0.0f;
    const float p = exponential<T>(x - shift);
    return factor * (v == column ? p - 1.0f : p);
  };
  const auto useOne = [&](int v, T x) { out[v] = T(gradient(x, v)); };
  // Both rows begin at the same place between multiples of 16, or elements are written one by one.
  const bool isPacked = headOf(row) == headOf(out);
  forRow(
      row, width,
      [&](int v, Pack<T, kPack> pack) {
        for (int j = 0; j < kPack; ++j) pack.at[j] = T(gradient(pack.at[j], v + j));
        if (isPacked)
          storePack(out + v, pack);
        else
          for (int j = 0; j < kPack; ++j) out[v + j] = pack.at[j];
      },
      useOne);
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
