// Attention on GPUs: the contract of op.h. No more than a tile of scores exists at a time.
//
// Heads of at most 128 dimensions, a multiple of 8, in 16-bit types run on tensor cores, where all rows begin at
// multiples of 16 bytes and no tensor masks; probabilities and their gradients are then rounded to the type for the
// second product, as FlashAttention-2 does (Dao, arXiv:2307.08691). All else, f32 above all, runs on plain kernels in
// f32.
//
// The surprise: the backward computes scores twice, once for dq by queries and once for dk and dv by keys, so that
// every sum has one owner and a fixed order. `place`, where it is not null, takes the place of AttentionDropout::place:
// where a shard's heads begin is a number in device memory.
#ifndef HYC_KERNELS_ATTENTION_CUDA_H_
#define HYC_KERNELS_ATTENTION_CUDA_H_

#include "kernels/attention/op.h"
#include "kernels/cuda/stream.h"

namespace hyc::kernels::cuda {

template <typename T>
void attentionForward(Stream stream, const AttentionDesc &desc, const int64_t *place, const T *q, const T *k,
                      const T *v, T *o, float *lse);

// workspace: attentionBackwardWorkspaceBytes.
template <typename T>
void attentionBackward(Stream stream, const AttentionDesc &desc, const int64_t *place, const T *q, const T *k,
                       const T *v, const T *o, const float *lse, const T *dO, T *dq, T *dk, T *dv, void *workspace);

// D of each query: Σ do · o.
constexpr size_t attentionBackwardWorkspaceBytes(const AttentionDesc &d) {
  return static_cast<size_t>(d.batch * d.heads * d.queryLength) * sizeof(float);
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_ATTENTION_CUDA_H_
