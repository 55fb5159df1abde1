// Attention backward on tensor cores: which rows a block has, which tiles of the other side it walks over, and how both
// come into shared memory and registers. cuda_gradient.h says what is computed with them.
#ifndef HYC_KERNELS_ATTENTION_CUDA_GRADIENT_TILES_H_
#define HYC_KERNELS_ATTENTION_CUDA_GRADIENT_TILES_H_

#include "kernels/attention/cuda_kept.h"
#include "kernels/attention/cuda_order.h"
#include "kernels/attention/cuda_tensor.h"

namespace hyc::kernels::cuda::attention {

constexpr int kOtherRows = 32, kOtherTiles = kOtherRows / 8;
// Of a warp's own rows, in sixteens: what registers hold beside the sums of D dimensions.
template <int D>
constexpr int kOwnTiles = D <= 64 ? 2 : 1;
template <int D>
constexpr int kWarpRows = kOwnTiles<D> * kMmaRows;
template <int D>
constexpr int kOwnRows = kWarps * kWarpRows<D>;

// Shared memory of a block: own₁ and own₂, two buffers of other₁ and other₂, and numbers: D of own queries, or two
// buffers of lse and D of other queries.
template <int D>
constexpr int kOwnBytes = 2 * kOwnRows<D> * D;
template <int D>
constexpr int kOtherBytes = 2 * kOtherRows * D;
template <int D>
constexpr int kTilesBytes = 2 * kOwnBytes<D> + 4 * kOtherBytes<D>;
constexpr int kNumbers = 4 * kOtherRows;
template <int D>
constexpr int kSharedBytes = kTilesBytes<D> + kNumbers * static_cast<int>(sizeof(float));
template <int D>
__device__ inline int otherAt(int buffer) {
  return 2 * kOwnBytes<D> + buffer * 2 * kOtherBytes<D>;
}
template <int D>
__device__ inline float *numbersOf(unsigned char *memory) {
  return reinterpret_cast<float *>(memory + kTilesBytes<D>);
}

// What a block, and a warp of it, has to do.
template <Side kSide, int D>
struct Share {
  static constexpr bool kOfKeys = kSide == Side::kKeys;
  int queryLength, keyLength, ownLength, headDim, group;
  int b, ownHead, firstHead;   // keys are read by all query heads of their group, one after the other
  int firstOfBlock, firstOwn;  // rows of the block and of the warp
  int offset;                  // query i sees the keys before i + offset
  int begin, end, steps;       // tiles of the other side that some row of the block sees; those of all heads

  __device__ Share(const AttentionDesc &d, const BlockOrder &order)
      : queryLength(static_cast<int>(d.queryLength)),
        keyLength(static_cast<int>(d.keyLength)),
        ownLength(kOfKeys ? keyLength : queryLength),
        headDim(static_cast<int>(d.headDim)),
        group(static_cast<int>(d.heads) / static_cast<int>(d.kvHeads)) {
    int tile, bAndHead;
    order.placeOf(blockIdx.x, tile, bAndHead);
    const int ownHeads = static_cast<int>(kOfKeys ? d.kvHeads : d.heads);
    b = bAndHead / ownHeads;
    ownHead = bAndHead % ownHeads;
    firstHead = kOfKeys ? ownHead * group : ownHead;
    // The first keys and the last queries have the most to do.
    firstOfBlock = (kOfKeys ? tile : static_cast<int>(order.tiles) - 1 - tile) * kOwnRows<D>;
    firstOwn = firstOfBlock + warpOfBlock() * kWarpRows<D>;
    offset = d.causal ? keyLength - queryLength + 1 : keyLength;
    int first = 0, beyond = kOfKeys ? queryLength : keyLength;
    if (d.causal && kOfKeys) first = firstOfBlock + 1 - offset;
    if (d.causal && !kOfKeys) {
      const int lastOfBlock = (firstOfBlock + kOwnRows<D> < ownLength ? firstOfBlock + kOwnRows<D> : ownLength) - 1;
      if (lastOfBlock + offset < beyond) beyond = lastOfBlock + offset;
    }
    begin = first > 0 ? first / kOtherRows : 0;
    end = (beyond + kOtherRows - 1) / kOtherRows;
    steps = end > begin ? (end - begin) * (kOfKeys ? group : 1) : 0;
  }
  template <typename T>
  __device__ RowCopies<D, T> copiesOf(const T *base, const HeadStrides &s, int head, int first, int length) const {
    return {base, s, b, head, first, length, headDim};
  }
};

// Asks for the block's own rows.
template <Side kSide, typename T, int D>
__device__ inline void loadOwn(const AttentionDesc &d, const Share<kSide, D> &share, const T *base,
                               const HeadStrides &s, unsigned char *to) {
  share.copiesOf(base, s, share.ownHead, share.firstOfBlock, share.ownLength)
      .template next<kOwnRows<D>>(reinterpret_cast<T *>(to), s.token);
}

// The other side's tiles on their way: those of one query head, then of the next.
template <Side kSide, typename T, int D>
class Arrivals {
 public:
  __device__ Arrivals(const AttentionDesc &d, const GradientOperands<T> &x, const Share<kSide, D> &share)
      : head_(share.firstHead), tile_(share.begin), first_(copies1(d, x, share)), second_(copies2(d, x, share)) {}

  // Asks for the next tile; the caller commits and waits. All threads of the block.
  __device__ void next(const AttentionDesc &d, const GradientOperands<T> &x, const Share<kSide, D> &share,
                       unsigned char *memory, int buffer) {
    if (kOfKeys && tile_ == share.end) {
      tile_ = share.begin;
      ++head_;
      first_ = copies1(d, x, share);
      second_ = copies2(d, x, share);
    }
    T *to = reinterpret_cast<T *>(memory + otherAt<D>(buffer));
    first_.template next<kOtherRows>(to, kOfKeys ? d.q.token : d.k.token);
    second_.template next<kOtherRows>(to + kOtherRows * D, kOfKeys ? d.dO.token : d.v.token);
    if (kOfKeys && threadIdx.x < 2 * kOtherRows) {
      const int i = static_cast<int>(threadIdx.x), query = tile_ * kOtherRows + i % kOtherRows;
      const float *from = (i < kOtherRows ? x.lse : x.rowD) + (share.b * d.heads + head_) * d.queryLength + query;
      copyNumberAsync(numbersOf<D>(memory) + buffer * 2 * kOtherRows + i, from, query < share.queryLength);
    }
    ++tile_;
  }

 private:
  static constexpr bool kOfKeys = kSide == Side::kKeys;
  using Copies = RowCopies<D, T>;
  __device__ Copies copies1(const AttentionDesc &d, const GradientOperands<T> &x, const Share<kSide, D> &s) const {
    return kOfKeys ? s.copiesOf(x.q, d.q, head_, s.begin * kOtherRows, s.queryLength)
                   : s.copiesOf(x.k, d.k, head_ / s.group, s.begin * kOtherRows, s.keyLength);
  }
  __device__ Copies copies2(const AttentionDesc &d, const GradientOperands<T> &x, const Share<kSide, D> &s) const {
    return kOfKeys ? s.copiesOf(x.dO, d.dO, head_, s.begin * kOtherRows, s.queryLength)
                   : s.copiesOf(x.v, d.v, head_ / s.group, s.begin * kOtherRows, s.keyLength);
  }

  int head_, tile_;
  Copies first_, second_;
};

// The warp's own rows as operands. With 128 dimensions a warp has 16 rows only and would read them as often as the
// other side's half: as much of them as registers have room for stays there.
template <Side kSide, typename T, int D>
class OwnOperands {
 public:
  static constexpr int M = kOwnTiles<D>, N = kOtherTiles;

  __device__ OwnOperands() : at_(2 * warpOfBlock() * kWarpRows<D> * D + bytesToA<D>()) {}
  // After the own rows have come.
  __device__ void hold(const unsigned char *memory) {
    HYC_UNROLL
    for (int k = 0; k < kHeldColumns1; k += 16) loadOperands<D>(held1_[k / 16], memory, at_, k);
    HYC_UNROLL
    for (int k = 0; k < kHeldColumns2; k += 16) loadOperands<D>(held2_[k / 16], memory, at_ + kOwnBytes<D>, k);
  }
  // scores += own₁ · other₁ᵀ, dp += own₂ · other₂ᵀ; other: where other₁ is.
  __device__ void addProducts(Tiles<M, N> &scores, Tiles<M, N> &dp, const unsigned char *memory, int other) const {
    const int other1 = other + bytesToRowsAsColumns<D>();
    addProduct<kHeldColumns1>(scores, held1_, memory, at_, other1);
    addProduct<kHeldColumns2>(dp, held2_, memory, at_ + kOwnBytes<D>, other1 + kOtherBytes<D>);
  }

 private:
  static constexpr int kHeldColumns1 = D == 128 ? D : 0, kHeldColumns2 = D == 128 && kSide == Side::kQueries ? D : 0;

  template <int kHeldColumns, int kSize>
  __device__ static void addProduct(Tiles<M, N> &to, const uint32_t (&held)[kSize][M][4], const unsigned char *memory,
                                    int own, int other) {
    if constexpr (kHeldColumns > 0) {
      HYC_UNROLL
      for (int k = 0; k < D; k += 16) addProductOfColumns<D, T>(to, held[k / 16], memory, other, k);
    } else {
      addProductOfRows<D, T>(to, memory, own, other);
    }
  }

  int at_;
  uint32_t held1_[kHeldColumns1 / 16 + 1][M][4], held2_[kHeldColumns2 / 16 + 1][M][4];
};

}  // namespace hyc::kernels::cuda::attention

#endif  // HYC_KERNELS_ATTENTION_CUDA_GRADIENT_TILES_H_
