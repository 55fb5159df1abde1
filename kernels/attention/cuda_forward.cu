// Attention forward on tensor cores: a block has 128 queries of a head, 32 a warp, and walks over tiles of keys, of
// which the next is on its way while one is worked on; one barrier a tile.
//
// The surprise: what probabilities of a row are relative to follows its maximum only when that has grown by more than a
// factor of 2^8. Sums are then seldom rescaled, and the result is the same quotient.
#include "kernels/attention/cuda_kept.h"
#include "kernels/attention/cuda_order.h"
#include "kernels/attention/cuda_paths.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda::attention {
namespace {

constexpr int kOwnTiles = 2, kQueryRows = kWarps * kOwnTiles * kMmaRows;
template <int D>
constexpr int kKeyRows = D <= 64 ? 64 : 32;
// Blocks that a multiprocessor shall have room for: registers allow three of at most 168 a thread, two of 255.
template <int D, bool kDrops>
constexpr int kResidentBlocks = D <= 64 && !kDrops ? 3 : 2;

// Of rows g and g + 8 of each 16. Sums are those of this lane's keys until the end.
struct Softmax {
  float reference[kOwnTiles][2], sum[kOwnTiles][2];

  __device__ Softmax() {
    HYC_UNROLL
    for (int m = 0; m < kOwnTiles; ++m) {
      HYC_UNROLL
      for (int half = 0; half < 2; ++half) {
        reference[m][half] = -__builtin_inff();
        sum[m][half] = 0;
      }
    }
  }
};

template <typename Combine>
__device__ inline float overRow(float value, Combine combine) {
  value = combine(value, __shfl_xor_sync(kAllLanes, value, 1));
  return combine(value, __shfl_xor_sync(kAllLanes, value, 2));
}
// Not the larger of a NaN: the probabilities of that row become NaN by themselves.
__device__ inline float larger(float x, float y) { return fmaxf(x, y); }

// −∞ where a row does not see a key. Counted from the tile's first key, row r of the warp sees the keys before
// seen + r, and there are `keysLeft`.
template <int N>
__device__ inline void mask(Tiles<kOwnTiles, N> &scores, int seen, int keysLeft) {
  const int g = laneOfWarp() / 4, t = laneOfWarp() % 4;
  HYC_UNROLL
  for (int m = 0; m < kOwnTiles; ++m) {
    HYC_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int ofRow = seen + m * kMmaRows + 8 * half + g;
      const int limit = (ofRow < keysLeft ? ofRow : keysLeft) - 2 * t;
      HYC_UNROLL
      for (int n = 0; n < N; ++n) {
        HYC_UNROLL
        for (int i = 0; i < 2; ++i)
          if (n * 8 + i >= limit) scores[m][n][2 * half + i] = -__builtin_inff();
      }
    }
  }
}

// Scores to probabilities over 2^(reference · scale), the references moved where maxima have left them behind; gives
// what older sums shrink by, and whether any of the warp's do.
template <int N>
__device__ inline bool takeIn(Softmax &state, Tiles<kOwnTiles, N> &scores, float scale, float (&shrink)[kOwnTiles][2]) {
  constexpr float kMostGrowth = 8;  // in units of log2: 16-bit floats hold 2^8 as well as 1
  bool hasMoved = false;
  HYC_UNROLL
  for (int m = 0; m < kOwnTiles; ++m) {
    HYC_UNROLL
    for (int half = 0; half < 2; ++half) {
      float most = larger(scores[m][0][2 * half], scores[m][0][2 * half + 1]);
      HYC_UNROLL
      for (int n = 1; n < N; ++n) most = larger(larger(scores[m][n][2 * half], scores[m][n][2 * half + 1]), most);
      most = overRow(most, larger);
      const float before = state.reference[m][half];
      const bool moves = (most - before) * scale > kMostGrowth;
      const float reference = moves ? most : before;
      const float shift = reference == -__builtin_inff() ? 0.0f : reference * scale;  // no key seen yet
      shrink[m][half] = moves ? exp2Approximately(fmaf(before, scale, -shift)) : 1.0f;
      hasMoved = hasMoved || moves;
      float sum = 0;
      HYC_UNROLL
      for (int n = 0; n < N; ++n) {
        HYC_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[m][n][i] = exp2Approximately(fmaf(scores[m][n][i], scale, -shift));
          sum += scores[m][n][i];
        }
      }
      state.sum[m][half] = fmaf(state.sum[m][half], shrink[m][half], sum);
      state.reference[m][half] = reference;
    }
  }
  return __ballot_sync(kAllLanes, hasMoved) != 0;
}

template <int N>
__device__ inline void multiplyRows(Tiles<kOwnTiles, N> &sums, const float (&factors)[kOwnTiles][2]) {
  HYC_UNROLL
  for (int m = 0; m < kOwnTiles; ++m) {
    HYC_UNROLL
    for (int n = 0; n < N; ++n) {
      HYC_UNROLL
      for (int i = 0; i < 4; ++i) sums[m][n][i] *= factors[m][i / 2];
    }
  }
}

// How many keys a row sees, or more than there are.
__device__ inline int seenBy(const AttentionDesc &d, int row) {
  const int keyLength = static_cast<int>(d.keyLength);
  return d.causal ? row + 1 + keyLength - static_cast<int>(d.queryLength) : keyLength;
}

// Writes the warp's rows of o and lse.
template <typename T, int D>
__device__ inline void finish(const AttentionDesc &d, const Operands<T> &x, const Softmax &state,
                              const Tiles<kOwnTiles, D / 8> &sums, float scale, float keptScale, int b, int head,
                              int firstRow, T *scratch) {
  const int g = laneOfWarp() / 4, t = laneOfWarp() % 4, left = static_cast<int>(d.queryLength) - firstRow;
  float *lse = x.lse + (b * d.heads + head) * d.queryLength + firstRow;
  float factors[kOwnTiles][2];
  HYC_UNROLL
  for (int m = 0; m < kOwnTiles; ++m) {
    HYC_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = m * kMmaRows + 8 * half + g;
      const float sum = overRow(state.sum[m][half], [](float y, float z) { return y + z; });
      factors[m][half] = sum > 0 ? keptScale / sum : 0.0f;
      if (t == 0 && row < left) lse[row] = (state.reference[m][half] * scale + log2f(sum)) * kLn2;
    }
  }
  storeRows<D>(sums, factors, scratch, rowOf(x.o, d.o, b, firstRow, head), d.o.token, left,
               static_cast<int>(d.headDim));
}

template <typename T, int D, bool kDrops>
__global__ void __launch_bounds__(kThreads, kResidentBlocks<D, kDrops>)
    forwardKernel(AttentionDesc d, BlockOrder order, KeepRule rule, const int64_t *place, Operands<T> x) {
  constexpr int kKeys = kKeyRows<D>, kTile = kKeys * D, N = kKeys / 8, kRowsOfWarp = kOwnTiles * kMmaRows;
  int tileNumber, bAndHead;
  order.placeOf(blockIdx.x, tileNumber, bAndHead);
  const int heads = static_cast<int>(d.heads), head = bAndHead % heads, b = bAndHead / heads;
  const int kvHead = head / (heads / static_cast<int>(d.kvHeads)), headDim = static_cast<int>(d.headDim);
  const int queryLength = static_cast<int>(d.queryLength), keyLength = static_cast<int>(d.keyLength);
  // The last queries see the most keys: they begin first.
  const int firstOfBlock = (static_cast<int>(order.tiles) - 1 - tileNumber) * kQueryRows;
  const int beyondBlock = firstOfBlock + kQueryRows < queryLength ? firstOfBlock + kQueryRows : queryLength;
  const int seenByLast = seenBy(d, beyondBlock - 1), keysOfBlock = seenByLast < keyLength ? seenByLast : keyLength;
  unsigned char *memory = dynamicShared();
  T *queries = reinterpret_cast<T *>(memory), *others = queries + kQueryRows * D;  // K, V, K, V
  RowCopies<D, T> k(x.k, d.k, b, kvHead, 0, keyLength, headDim), v(x.v, d.v, b, kvHead, 0, keyLength, headDim);
  const auto loadNext = [&](int buffer) {
    k.template next<kKeys>(others + buffer * 2 * kTile, d.k.token);
    v.template next<kKeys>(others + (buffer * 2 + 1) * kTile, d.v.token);
  };
  RowCopies<D, T>(x.q, d.q, b, head, firstOfBlock, queryLength, headDim).template next<kQueryRows>(queries, d.q.token);
  if (keysOfBlock > 0) loadNext(0);
  commitCopies();

  const int firstRow = firstOfBlock + warpOfBlock() * kRowsOfWarp;
  const int ownAt = 2 * warpOfBlock() * kRowsOfWarp * D + bytesToA<D>();
  const float scale = static_cast<float>(d.scale) * kLog2E;
  Softmax state;
  Tiles<kOwnTiles, D / 8> sums = {};
  int buffer = 0, seen = firstRow < queryLength ? seenBy(d, firstRow) : -kRowsOfWarp;
  for (int firstKey = 0; firstKey < keysOfBlock; firstKey += kKeys, seen -= kKeys, buffer ^= 1) {
    waitCopies<0>();
    __syncthreads();  // the tile is there, and the one before has been read by all
    if (firstKey + kKeys < keysOfBlock) {
      loadNext(buffer ^ 1);
      commitCopies();
    }
    if (seen + kRowsOfWarp <= 1) continue;  // not even by the last row
    const int othersAt = 2 * (kQueryRows * D + buffer * 2 * kTile);
    Tiles<kOwnTiles, N> scores = {};
    addProductOfRows<D, T>(scores, memory, ownAt, othersAt + bytesToRowsAsColumns<D>());
    if (seen < kKeys || keyLength - firstKey < kKeys) mask(scores, seen, keyLength - firstKey);
    float shrink[kOwnTiles][2];
    if (takeIn(state, scores, scale, shrink)) multiplyRows(sums, shrink);
    if constexpr (kDrops) {
      const DropoutStream stream(d, rule, place, b, head);
      const Kept<Side::kQueries, kOwnTiles, N> kept(stream, firstRow, firstKey);
      dropOut(kept, scores);
    }
    addWeightedRows<D, T>(sums, scores, memory, othersAt + 2 * kTile + bytesToA<D>());
  }
  waitCopies<0>();
  __syncthreads();  // the queries, where there was no key
  finish<T, D>(d, x, state, sums, scale, rule.scale, b, head, firstRow, queries + warpOfBlock() * kRowsOfWarp * D);
}

template <typename T, int D, bool kDrops>
void launch(Stream stream, const AttentionDesc &d, const int64_t *place, const Operands<T> &operands) {
  const BlockOrder order(d.queryLength, kQueryRows, d.batch * d.heads,
                         2 * d.keyLength * d.headDim * static_cast<int64_t>(sizeof(T)));
  const Grid grid{dim3(order.blocks()), dim3(kThreads), (kQueryRows + 4 * kKeyRows<D>)*D * sizeof(T)};
  kernel(forwardKernel<T, D, kDrops>).launch(stream, grid, d, order, KeepRule(d.dropout.rate), place, operands);
}
template <typename T, int D>
void launch(Stream stream, const AttentionDesc &d, const int64_t *place, const Operands<T> &operands) {
  if (d.dropout.rate == 0)
    launch<T, D, false>(stream, d, place, operands);
  else
    launch<T, D, true>(stream, d, place, operands);
}

}  // namespace

template <typename T>
void forwardTiled(Stream stream, const AttentionDesc &d, const int64_t *place, const Operands<T> &operands) {
  if (d.headDim <= 64)
    launch<T, 64>(stream, d, place, operands);
  else
    launch<T, 128>(stream, d, place, operands);
}

template void forwardTiled<Bf16>(Stream, const AttentionDesc &, const int64_t *, const Operands<Bf16> &);
template void forwardTiled<F16>(Stream, const AttentionDesc &, const int64_t *, const Operands<F16> &);

}  // namespace hyc::kernels::cuda::attention
