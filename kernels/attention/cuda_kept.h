// Which probabilities dropout keeps, for a warp's tile of scores on tensor cores.
//
// One evaluation of Philox gives the words of four consecutive keys of a query. In C fragments those belong to two
// lanes where rows are queries (2t, 2t + 1 of two neighbours) and to four where rows are keys (g of four lanes), so
// each lane evaluates only its share, one bit a key, and the lanes trade words of such bits. Element for element these
// are the bits of randomWord.
#ifndef HYC_KERNELS_ATTENTION_CUDA_KEPT_H_
#define HYC_KERNELS_ATTENTION_CUDA_KEPT_H_

#include "kernels/attention/cuda_tensor.h"

namespace hyc::kernels::cuda::attention {

enum class Side { kQueries, kKeys };

// What all streams of a call share; made on the host, since it takes f64 arithmetic.
struct KeepRule {
  uint32_t threshold;
  float scale;

  explicit KeepRule(double rate)
      : threshold(static_cast<uint32_t>(dropoutThreshold(rate))), scale(dropoutScale(rate)) {}
};

// The random stream of one (sample, head).
struct DropoutStream {
  int64_t key, firstBlock, rowBlocks;  // blocks of four keys
  uint32_t threshold;

  __device__ DropoutStream(const AttentionDesc &d, const KeepRule &rule, const int64_t *place, int b, int head)
      : key(d.dropout.keys[b * d.dropout.keyStride]),
        firstBlock((place ? *place : d.dropout.place) / 4 + head * d.queryLength * (dropoutRow(d.keyLength) / 4)),
        rowBlocks(dropoutRow(d.keyLength) / 4),
        threshold(rule.threshold) {}

  // One bit a key of the four keys 4 · block … 4 · block + 3.
  __device__ uint32_t keepBits(int64_t query, int keyBlock) const {
    const PhiloxWords words =
        randomWords(static_cast<uint64_t>(key), static_cast<uint64_t>(firstBlock + query * rowBlocks + keyBlock));
    uint32_t bits = 0;
    HYC_UNROLL
    for (int i = 0; i < 4; ++i) bits |= words.word[i] >= threshold ? 1u << i : 0u;
    return bits;
  }
};

// Of 16 · M own rows and 8 · N rows of the other side.
template <Side kSide, int M, int N>
class Kept {
 public:
  // All lanes of the warp. firstKey: a multiple of eight.
  __device__ Kept(const DropoutStream &stream, int firstQuery, int firstKey) {
    const int lane = laneOfWarp(), g = lane / 4, t = lane % 4;
    const int mine = kSide == Side::kQueries ? t % 2 : g % 4;
    HYC_UNROLL
    for (int w = 0; w < kWords; ++w) {
      uint32_t bits = 0;
      HYC_UNROLL_BY_FOUR
      for (int call = 0; call < kCallsOfWord; ++call) {
        const int m = (w * kCallsOfWord + call) / N, n = (w * kCallsOfWord + call) % N;
        const int query = kSide == Side::kQueries ? m * kMmaRows + 8 * mine + g : n * 8 + 2 * t + mine % 2;
        const int key = kSide == Side::kQueries ? n * 8 + t / 2 * 4 : m * kMmaRows + mine / 2 * 8 + g / 4 * 4;
        bits |= stream.keepBits(firstQuery + query, (firstKey + key) / 4) << (4 * call);
      }
      HYC_UNROLL
      for (int share = 0; share < kShares; ++share) {
        const int from = kSide == Side::kQueries ? (lane & ~1) | share : (lane & ~12) | share << 2;
        const int firstBit = kSide == Side::kQueries ? t % 2 * 2 : g % 4;
        words_[w][share] = __shfl_sync(kAllLanes, bits, from) >> firstBit;
      }
    }
  }
  __device__ bool operator()(int m, int n, int i) const {
    const int call = m * N + n;
    const int share = kSide == Side::kQueries ? i / 2 : i / 2 * 2 + i % 2;
    const int bit = 4 * (call % kCallsOfWord) + (kSide == Side::kQueries ? i % 2 : 0);
    return (words_[call / kCallsOfWord][share] >> bit & 1u) != 0;
  }

 private:
  static constexpr int kCallsOfWord = M * N < 8 ? M * N : 8, kWords = M * N / kCallsOfWord;
  static constexpr int kShares = kSide == Side::kQueries ? 2 : 4;
  static_assert(kWords * kCallsOfWord == M * N);
  uint32_t words_[kWords][kShares];
};

template <Side kSide, int M, int N>
__device__ inline void dropOut(const Kept<kSide, M, N> &kept, Tiles<M, N> &probabilities) {
  HYC_UNROLL
  for (int m = 0; m < M; ++m) {
    HYC_UNROLL
    for (int n = 0; n < N; ++n) {
      HYC_UNROLL
      for (int i = 0; i < 4; ++i) probabilities[m][n][i] = kept(m, n, i) ? probabilities[m][n][i] : 0.0f;
    }
  }
}

}  // namespace hyc::kernels::cuda::attention

#endif  // HYC_KERNELS_ATTENTION_CUDA_KEPT_H_
