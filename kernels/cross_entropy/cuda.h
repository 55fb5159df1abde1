// Cross entropy on GPUs: the contract of op.h. No probability is ever stored: a row of logits, of less than 2^31, is
// read once for the loss (twice where the vocabulary is split) and once for the gradient. Exponentials of 16-bit logits
// are the device's, within the contract of kernels/math/narrow.h.
//
// Where the vocabulary is split, `shard` says which part of the columns is this rank's; its first column is a number in
// device memory, and with it localVocab and vocabStart of the desc are not looked at; ld 0 then means all its columns.
#ifndef HYC_KERNELS_CROSS_ENTROPY_CUDA_H_
#define HYC_KERNELS_CROSS_ENTROPY_CUDA_H_

#include "kernels/cross_entropy/op.h"
#include "kernels/cuda/stream.h"

namespace hyc::kernels::cuda {

struct VocabularyShard {
  const int64_t *first = nullptr;  // null: the desc says all
  int64_t vocabulary = 0;          // of the whole model; columns beyond it are padding
  int64_t columns = 0;             // that this rank holds, padding included
};

template <typename T>
void crossEntropyForward(Stream stream, const CrossEntropyDesc &desc, const T *logits, const int64_t *labels,
                         float *lse, float *picked, float *lossSum, int64_t *count);

template <typename T>
void crossEntropyRowMax(Stream stream, const CrossEntropyDesc &desc, const VocabularyShard &shard, const T *logits,
                        float *rowMax);

template <typename T>
void crossEntropySumExp(Stream stream, const CrossEntropyDesc &desc, const VocabularyShard &shard, const T *logits,
                        const int64_t *labels, const float *rowMax, float *sumExp, float *picked);

void crossEntropyCombine(Stream stream, const CrossEntropyDesc &desc, const int64_t *labels, const float *rowMax,
                         const float *sumExp, const float *picked, float *lse, float *lossSum, int64_t *count);

// scale: one number in device memory.
template <typename T>
void crossEntropyGrad(Stream stream, const CrossEntropyDesc &desc, const VocabularyShard &shard, const T *logits,
                      const int64_t *labels, const float *lse, const float *scale, T *dlogits);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CROSS_ENTROPY_CUDA_H_
