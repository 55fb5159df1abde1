// What the attention kernels for GPUs share: operands, which keys a query sees, and dropout.
#ifndef HYC_KERNELS_ATTENTION_CUDA_TILE_H_
#define HYC_KERNELS_ATTENTION_CUDA_TILE_H_

#include "kernels/attention/cuda.h"
#include "kernels/cuda/device.h"

namespace hyc::kernels::cuda::attention {

template <typename T>
struct Operands {
  const T *q, *k, *v;
  T *o;
  float *lse;
};
template <typename T>
struct GradientOperands {
  const T *q, *k, *v, *o, *dO;
  const float *lse;
  float *rowD;
  T *dq, *dk, *dv;
};

template <typename T>
__device__ inline T *rowOf(T *base, const HeadStrides &s, int64_t b, int64_t token, int64_t head) {
  return base + b * s.batch + token * s.token + head * s.head;
}

// How many leading keys query i sees; none where it is negative.
__device__ inline int64_t visibleKeys(const AttentionDesc &d, int64_t i) {
  return d.causal ? i + 1 + d.keyLength - d.queryLength : d.keyLength;
}
// The first query that sees key j.
__device__ inline int64_t firstQuery(const AttentionDesc &d, int64_t j) {
  const int64_t first = d.causal ? j - (d.keyLength - d.queryLength) : 0;
  return first < 0 ? 0 : first;
}

// Whether query i sees key j of those.
__device__ inline bool isSeen(const AttentionMask &m, int64_t b, int64_t head, int64_t i, int64_t j) {
  return !m.at || m.at[b * m.batch + head * m.head + i * m.query + j] != 0;
}

// Which probabilities of one (sample, head) are kept, and what those are multiplied with.
class Dropout {
 public:
  __device__ Dropout(const AttentionDesc &d, const int64_t *place, int64_t b, int64_t head) {
    if (d.dropout.rate == 0) return;
    isOn_ = true;
    key_ = d.dropout.keys[b * d.dropout.keyStride];
    rowElements_ = dropoutRow(d.keyLength);
    first_ = (place ? *place : d.dropout.place) + head * d.queryLength * rowElements_;
    threshold_ = dropoutThreshold(d.dropout.rate);
    scale_ = dropoutScale(d.dropout.rate);
  }
  __device__ bool isOn() const { return isOn_; }
  // 0, or what is kept's factor.
  __device__ float factor(int64_t i, int64_t j) const {
    if (!isOn_) return 1.0f;
    return randomWord(key_, first_ + i * rowElements_ + j) >= threshold_ ? scale_ : 0.0f;
  }

 private:
  bool isOn_ = false;
  int64_t key_ = 0, rowElements_ = 0, first_ = 0, threshold_ = 0;
  float scale_ = 1;
};

}  // namespace hyc::kernels::cuda::attention

#endif  // HYC_KERNELS_ATTENTION_CUDA_TILE_H_
