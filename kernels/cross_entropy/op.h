// Cross entropy of logits whose vocabulary may be split over ranks, and its gradient.
//
//   lse_t = log Σ_v exp(logit_tv),  loss = Σ_t (lse_t − logit_t,label) over the tokens whose label is not ignored,
//   dlogit_tv = scale · (exp(logit_tv − lse_t) − [v = label])
// in three pieces with an exchange between them: rowMax (all-reduced by max), then sumExp and picked (all-reduced by
// sum), then the combination, which every rank does alike.
//
// The surprise: the loss is a sum over tokens, not a mean. Whoever knows the token count of the global batch divides.
#ifndef HYC_KERNELS_CROSS_ENTROPY_OP_H_
#define HYC_KERNELS_CROSS_ENTROPY_OP_H_

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/narrow_float.h"

namespace hyc::kernels {

// logits, dlogits: [tokens, ld], of which the first localVocab columns are the vocabulary's entries vocabStart …
// vocabStart + localVocab − 1 and the rest is padding that is never read and whose gradient is 0. labels: [tokens],
// numbered over the whole vocabulary. rowMax, sumExp, picked, lse: [tokens]. Logits and their gradient are of T: float,
// Bf16 or F16; all else is f32.
struct CrossEntropyDesc {
  int64_t tokens = 0;
  int64_t localVocab = 0;  // may be 0: a rank that holds only padding
  int64_t ld = 0;          // 0 means localVocab
  int64_t vocabStart = 0;
  int64_t ignoreIndex = -100;

  HYC_HOST_DEVICE int64_t rowStride() const { return ld ? ld : localVocab; }
};

// 1. rowMax[t] = max over the local columns; −∞ where there are none.
template <typename T>
void crossEntropyRowMax(const CrossEntropyDesc &desc, const T *logits, float *rowMax);

// 2. With the maximum over all ranks: sumExp[t] = Σ exp(logit − rowMax[t]) over the local columns; picked[t] = the
// label's logit, or 0 if the label is not local or ignored.
template <typename T>
void crossEntropySumExp(const CrossEntropyDesc &desc, const T *logits, const int64_t *labels, const float *rowMax,
                        float *sumExp, float *picked);

// 3. With the sums over all ranks: lse[t] = log(sumExp) + rowMax; lossSum = Σ (lse − picked) in f64 in the order of
// tokens, rounded once; count = the number of tokens that are not ignored. lse may be any of the three inputs.
void crossEntropyCombine(const CrossEntropyDesc &desc, const int64_t *labels, const float *rowMax, const float *sumExp,
                         const float *picked, float *lse, float *lossSum, int64_t *count);

// Pieces 1 to 3 in one pass over the logits where one rank holds the whole vocabulary; the same bits. picked is
// scratch.
template <typename T>
void crossEntropyForward(const CrossEntropyDesc &desc, const T *logits, const int64_t *labels, float *lse,
                         float *picked, float *lossSum, int64_t *count);

// dlogits may be logits. Rows of ignored tokens and padded columns become 0.
template <typename T>
void crossEntropyGrad(const CrossEntropyDesc &desc, const T *logits, const int64_t *labels, const float *lse,
                      float scale, T *dlogits);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_CROSS_ENTROPY_OP_H_
