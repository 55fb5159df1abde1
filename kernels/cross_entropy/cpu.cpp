// Cross entropy on CPUs. Tokens are independent; only the sum over them is taken by one thread, in their order.
#include "kernels/cross_entropy/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/math/math.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

// Σ exp(x − shift), exponentials first into a buffer that stays in the first-level cache.
template <typename T>
static float sumOfExponentials(const T *x, int64_t n, float shift) {
  constexpr int64_t kChunk = 512;
  float exponentials[kChunk];
  LaneSum sum;
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t length = n - start < kChunk ? n - start : kChunk;
    for (int64_t i = 0; i < length; ++i) exponentials[i] = math::exp(x[start + i] - shift);
    int64_t i = 0;
    for (; i + kRowLanes <= length; i += kRowLanes) sum.add(exponentials + i);
    if (i < length) sum.addTail(exponentials + i, length - i);
  }
  return sum.total();
}

// The label's column among the local ones, or −1.
static int64_t localLabel(const CrossEntropyDesc &d, int64_t label) {
  const bool local = label != d.ignoreIndex && label >= d.vocabStart && label - d.vocabStart < d.localVocab;
  return local ? label - d.vocabStart : -1;
}
template <typename T>
static float pickedLogit(const CrossEntropyDesc &d, const T *row, int64_t label) {
  const int64_t column = localLabel(d, label);
  return column >= 0 ? static_cast<float>(row[column]) : 0.0f;
}

template <typename T>
void crossEntropyRowMax(const CrossEntropyDesc &d, const T *logits, float *rowMax) {
  runTeam(d.tokens * d.localVocab >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t t = 0; t < d.tokens; ++t) rowMax[t] = maxOfRow(logits + t * d.rowStride(), d.localVocab);
  });
}

template <typename T>
void crossEntropySumExp(const CrossEntropyDesc &d, const T *logits, const int64_t *labels, const float *rowMax,
                        float *sumExp, float *picked) {
  runTeam(d.tokens * d.localVocab >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t t = 0; t < d.tokens; ++t) {
      const T *row = logits + t * d.rowStride();
      sumExp[t] = sumOfExponentials(row, d.localVocab, rowMax[t]);
      picked[t] = pickedLogit(d, row, labels[t]);
    }
  });
}

static void sumLoss(const CrossEntropyDesc &d, const int64_t *labels, const float *lse, const float *picked,
                    float *lossSum, int64_t *count) {
  double sum = 0;
  int64_t counted = 0;
  for (int64_t t = 0; t < d.tokens; ++t) {
    if (labels[t] == d.ignoreIndex) continue;
    sum += static_cast<double>(lse[t]) - static_cast<double>(picked[t]);
    ++counted;
  }
  *lossSum = static_cast<float>(sum);
  *count = counted;
}

void crossEntropyCombine(const CrossEntropyDesc &d, const int64_t *labels, const float *rowMax, const float *sumExp,
                         const float *picked, float *lse, float *lossSum, int64_t *count) {
  double sum = 0;
  int64_t counted = 0;
  for (int64_t t = 0; t < d.tokens; ++t) {
    // Read before lse is written, which may be one of the inputs.
    const float tokenPicked = picked[t], tokenLse = math::log(sumExp[t]) + rowMax[t];
    if (labels[t] != d.ignoreIndex) {
      sum += static_cast<double>(tokenLse) - static_cast<double>(tokenPicked);
      ++counted;
    }
    lse[t] = tokenLse;
  }
  *lossSum = static_cast<float>(sum);
  *count = counted;
}

template <typename T>
void crossEntropyForward(const CrossEntropyDesc &d, const T *logits, const int64_t *labels, float *lse, float *picked,
                         float *lossSum, int64_t *count) {
  runTeam(d.tokens * d.localVocab >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t t = 0; t < d.tokens; ++t) {
      const T *row = logits + t * d.rowStride();
      const float max = maxOfRow(row, d.localVocab);
      lse[t] = math::log(sumOfExponentials(row, d.localVocab, max)) + max;
      picked[t] = pickedLogit(d, row, labels[t]);
    }
  });
  sumLoss(d, labels, lse, picked, lossSum, count);
}

template <typename T>
static void differentiateRow(const CrossEntropyDesc &d, const T *row, int64_t label, float lse, float scale, T *out) {
  const bool ignored = label == d.ignoreIndex;
  const int64_t column = localLabel(d, label);
  const float picked = pickedLogit(d, row, label);  // out may be row
  for (int64_t v = 0; v < d.localVocab && !ignored; ++v) out[v] = scale * math::exp(row[v] - lse);
  if (column >= 0) out[column] = scale * (math::exp(picked - lse) - 1.0f);
  for (int64_t v = ignored ? 0 : d.localVocab; v < d.rowStride(); ++v) out[v] = 0.0f;
}

template <typename T>
void crossEntropyGrad(const CrossEntropyDesc &d, const T *logits, const int64_t *labels, const float *lse, float scale,
                      T *dlogits) {
  runTeam(d.tokens * d.rowStride() >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t t = 0; t < d.tokens; ++t)
      differentiateRow(d, logits + t * d.rowStride(), labels[t], lse[t], scale, dlogits + t * d.rowStride());
  });
}

HYC_INSTANTIATE(crossEntropyRowMax)
HYC_INSTANTIATE(crossEntropySumExp)
HYC_INSTANTIATE(crossEntropyForward)
HYC_INSTANTIATE(crossEntropyGrad)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, crossEntropyRowMax, (const CrossEntropyDesc &d, const T *logits, float *rowMax),
                      (d, logits, rowMax))
HYC_DISPATCH_TEMPLATE(void, crossEntropySumExp,
                      (const CrossEntropyDesc &d, const T *logits, const int64_t *labels, const float *rowMax,
                       float *sumExp, float *picked),
                      (d, logits, labels, rowMax, sumExp, picked))
HYC_DISPATCH(void, crossEntropyCombine,
             (const CrossEntropyDesc &d, const int64_t *labels, const float *rowMax, const float *sumExp,
              const float *picked, float *lse, float *lossSum, int64_t *count),
             (d, labels, rowMax, sumExp, picked, lse, lossSum, count))
HYC_DISPATCH_TEMPLATE(void, crossEntropyForward,
                      (const CrossEntropyDesc &d, const T *logits, const int64_t *labels, float *lse, float *picked,
                       float *lossSum, int64_t *count),
                      (d, logits, labels, lse, picked, lossSum, count))
HYC_DISPATCH_TEMPLATE(void, crossEntropyGrad,
                      (const CrossEntropyDesc &d, const T *logits, const int64_t *labels, const float *lse, float scale,
                       T *dlogits),
                      (d, logits, labels, lse, scale, dlogits))

}  // namespace hyc::kernels
