// Scaled dot-product attention, forward and gradient, that never holds more than one block of scores per thread.
//
//   s = scale · q·kᵀ (−∞ where masked),  lse = log Σ_j exp(s_j),  p = exp(s − lse),  o = p·v
//   D = Σ_d do · o,  dp = do·vᵀ,  ds = p · (dp − D),  dq = scale · ds·k,  dk = scale · dsᵀ·q,  dv = pᵀ·do
// With dropout, m being 1 / (1 − rate) where an element is kept and else 0: o = (p·m)·v, dp = m · (do·vᵀ), dv =
// (p·m)ᵀ·do. (Dao et al., "FlashAttention", arXiv:2205.14135, algorithms 1 and 4; lse replaces their pair of maximum
// and sum.)
//
// The surprise: causal masks are aligned at the end, so query i sees keys 0 … i + keyLength − queryLength. What is
// masked by a tensor is masked besides.
#ifndef HYC_KERNELS_ATTENTION_OP_H_
#define HYC_KERNELS_ATTENTION_OP_H_

#include <cstddef>
#include <cstdint>

#include "kernels/narrow_float.h"
#include "kernels/philox/op.h"

namespace hyc::kernels {

// Where element (b, s, h, d) of a tensor lies: b · batch + s · token + h · head + d, in elements. This addresses a
// dense [B, S, H, D] as well as q, k and v as slices of one fused projection.
struct HeadStrides {
  int64_t batch = 0, token = 0, head = 0;
};

constexpr HeadStrides denseHeadStrides(int64_t length, int64_t heads, int64_t headDim) {
  return {length * heads * headDim, heads * headDim, headDim};
}
// Slices of [B, S, 3 · H · D]: q starts at 0, k at H · D, v at 2 · H · D.
constexpr HeadStrides fusedQkvStrides(int64_t length, int64_t heads, int64_t headDim) {
  return {length * 3 * heads * headDim, 3 * heads * headDim, headDim};
}

// Which probabilities are dropped: of sample b those whose word, under key keys[b · keyStride], is below
// dropoutThreshold(rate). Element (h, i, j) of the sample is number place + (h · queryLength + i) ·
// dropoutRow(keyLength) + j; place, a multiple of four, is where this tensor's heads begin.
struct AttentionDropout {
  double rate = 0;  // 0: none, and nothing else is read
  const int64_t *keys = nullptr;
  int64_t keyStride = 1, place = 0;
};

// Which keys a query sees besides: key j is seen by query i of head h of sample b where
// at[b · batch + h · head + i · query + j] is not 0. A step of 0: the same for all.
struct AttentionMask {
  const uint8_t *at = nullptr;  // null: all
  int64_t batch = 0, head = 0, query = 0;
};
// Of a dense [B or 1, H or 1, S or 1, T].
constexpr AttentionMask denseAttentionMask(const uint8_t *at, const int64_t *shape) {
  return {at, shape[0] == 1 ? 0 : shape[1] * shape[2] * shape[3], shape[1] == 1 ? 0 : shape[2] * shape[3],
          shape[2] == 1 ? 0 : shape[3]};
}

// q, o, dq, do: [B, queryLength, heads, D]; k, v, dk, dv: [B, keyLength, kvHeads, D]; lse: [B, heads, queryLength],
// dense. kvHeads divides heads: query head h reads key head h / (heads / kvHeads). causal needs
// keyLength >= queryLength.
struct AttentionDesc {
  int64_t batch = 0, queryLength = 0, keyLength = 0;
  int64_t heads = 0, kvHeads = 0, headDim = 0;
  bool causal = false;
  double scale = 1;
  AttentionDropout dropout;
  AttentionMask mask;
  HeadStrides q, k, v, o;      // forward, and read by the gradient
  HeadStrides dq, dk, dv, dO;  // gradient only
};

// The largest head dimension: blocks of a head live on the thread's stack.
constexpr int64_t kAttentionMaxHeadDim = 256;

// No result overlaps an input. A query that sees no key gets o = 0 and lse = −∞. T: float, Bf16 or F16; products,
// scores and sums are f32 for all of them.
template <typename T>
void attentionForward(const AttentionDesc &desc, const T *q, const T *k, const T *v, T *o, float *lse);

// dq, dk and dv are overwritten, all three always. One (batch, key head) is one thread's work: its queries are walked
// in ascending blocks, which fixes the order in which dk and dv are summed. `workspace` holds
// attentionBackwardWorkspaceBytes<T>(desc, omp_get_max_threads()) bytes, or is null: threads then keep scratch memory
// of their own, allocated at first use.
template <typename T>
void attentionBackward(const AttentionDesc &desc, const T *q, const T *k, const T *v, const T *o, const float *lse,
                       const T *dO, T *dq, T *dk, T *dv, void *workspace = nullptr);

constexpr bool attentionIsWorthATeam(const AttentionDesc &d) { return d.batch * d.kvHeads > 1; }

// Sums of dk and dv of one head for each of at most `threads` threads, where the results are of 16 bits; f32 sums in
// place.
template <typename T>
constexpr size_t attentionBackwardWorkspaceBytes(const AttentionDesc &d, int threads) {
  if (sizeof(T) == sizeof(float)) return 0;
  const int64_t team = attentionIsWorthATeam(d) ? threads : 1;
  return static_cast<size_t>(team * 2 * d.keyLength * d.headDim) * sizeof(float);
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_ATTENTION_OP_H_
