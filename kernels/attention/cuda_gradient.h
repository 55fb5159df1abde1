// Attention backward on tensor cores, in two kernels of one form: a block has rows of its own side, queries or keys,
// and walks over the tiles of the other side. With own rows (Q, dO) and others (K, V), or (K, V) and (Q, dO):
//
//   s = own₁ · other₁ᵀ, dp = own₂ · other₂ᵀ, p = exp(scale · s − lse), ds = p · (dp − D)
//   dq or dk = scale · Σ ds · other₁;  of keys also dv = Σ p · other₂
//
// The surprise: the kernel of queries runs first, since it also computes D = Σ do · o, which that of keys reads.
//
// The kernels are the long part of what nvcc compiles: each cuda_backward_<type>_<dimensions>.cu makes those of one
// type and width, so that they are compiled side by side.
#ifndef HYC_KERNELS_ATTENTION_CUDA_GRADIENT_H_
#define HYC_KERNELS_ATTENTION_CUDA_GRADIENT_H_

#include "kernels/attention/cuda_gradient_tiles.h"
#include "kernels/attention/cuda_paths.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda::attention {

// Blocks that a multiprocessor shall have room for: registers allow three of at most 168 a thread, two of 255.
template <Side kSide, int D, bool kDrops>
constexpr int kResidentBlocks = kSide == Side::kQueries && D <= 64 && !kDrops ? 3 : 2;

// D of a block's queries, in shared memory and in x.rowD. dO: their tile; o, rowD: at the first of them.
template <int D, typename T>
__device__ inline void sumRowD(const T *dO, const T *o, int64_t stride, int rowsLeft, int headDim, float *shared,
                               float *rowD) {
  static_assert(kOwnRows<D> <= kNumbers);
  constexpr int kChunks = D / kChunk, kRowsAtOnce = kThreads / kChunks;
  const int row = static_cast<int>(threadIdx.x) / kChunks, column = static_cast<int>(threadIdx.x) % kChunks * kChunk;
  HYC_UNROLL
  for (int r = row; r < kOwnRows<D>; r += kRowsAtOnce) {
    float sum = 0;
    if (r < rowsLeft && column < headDim) {
      const Pack<T, kChunk> a = loadPack<kChunk>(dO + tileOffset<D>(r, column));
      const Pack<T, kChunk> b = loadPack<kChunk>(o + r * stride + column);
      HYC_UNROLL
      for (int c = 0; c < kChunk; ++c) sum = fmaf(a.at[c], b.at[c], sum);
    }
    HYC_UNROLL
    for (int apart = kChunks / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(kAllLanes, sum, apart);
    if (column == 0) {
      shared[r] = sum;
      if (r < rowsLeft) rowD[r] = sum;
    }
  }
}

// 0 for the probabilities of pairs that do not see each other: own row r, counted from 0, goes with the columns before
// `limit` + r, where own rows are queries, or with those from it on, where they are keys; and queries go with no column
// from `end` on. (Queries beyond the last are rows of zeros, and add nothing to the sums of keys.)
template <Side kSide, int M, int N>
__device__ inline void mask(Tiles<M, N> &p, bool isCausal, int limit, int end) {
  const int g = laneOfWarp() / 4, t = laneOfWarp() % 4;
  HYC_UNROLL
  for (int m = 0; m < M; ++m) {
    HYC_UNROLL
    for (int half = 0; half < 2; ++half) {
      int ofRow = limit + m * kMmaRows + 8 * half + g;
      if (kSide == Side::kQueries && (!isCausal || ofRow > end)) ofRow = end;
      HYC_UNROLL
      for (int n = 0; n < N; ++n) {
        HYC_UNROLL
        for (int i = 0; i < 2; ++i) {
          const bool isBefore = n * 8 + i < ofRow - 2 * t;
          if (isBefore != (kSide == Side::kQueries)) p[m][n][2 * half + i] = 0.0f;
        }
      }
    }
  }
}

// lse in units of log2 and negative, and D: of own rows g and g + 8 of each 16, or of other rows from shared memory.
template <Side kSide, int M>
struct QueryNumbers {
  float minusLse[M][2], rowD[M][2];
  const float *otherLse, *otherD;
};

// Of own queries, after they have come; D is computed here. All threads of the block.
template <typename T, int D>
__device__ inline void findNumbers(const AttentionDesc &d, const GradientOperands<T> &x,
                                   const Share<Side::kQueries, D> &share, unsigned char *memory,
                                   QueryNumbers<Side::kQueries, kOwnTiles<D>> &numbers) {
  const int64_t firstNumber = (share.b * d.heads + share.ownHead) * d.queryLength;
  float *shared = numbersOf<D>(memory);
  sumRowD<D>(reinterpret_cast<const T *>(memory + kOwnBytes<D>),
             rowOf(x.o, d.o, share.b, share.firstOfBlock, share.ownHead), d.o.token,
             share.queryLength - share.firstOfBlock, share.headDim, shared, x.rowD + firstNumber + share.firstOfBlock);
  __syncthreads();
  for (int m = 0; m < kOwnTiles<D>; ++m)
    for (int half = 0; half < 2; ++half) {
      const int row = share.firstOwn + m * kMmaRows + 8 * half + laneOfWarp() / 4;
      numbers.rowD[m][half] = shared[row - share.firstOfBlock];
      numbers.minusLse[m][half] = row < share.queryLength ? -x.lse[firstNumber + row] * kLog2E : 0.0f;
    }
}

// Probabilities from scores, in place.
template <Side kSide, int M, int N>
__device__ inline void exponentiate(Tiles<M, N> &p, const QueryNumbers<kSide, M> &numbers, float scale) {
  HYC_UNROLL
  for (int n = 0; n < N; ++n) {
    float minusLse[2] = {};
    if constexpr (kSide == Side::kKeys) {
      const Pack<float, 2> pair = loadPack<2>(numbers.otherLse + n * 8 + laneOfWarp() % 4 * 2);
      for (int i = 0; i < 2; ++i) minusLse[i] = -pair.at[i] * kLog2E;
    }
    HYC_UNROLL
    for (int m = 0; m < M; ++m) {
      HYC_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float lse = kSide == Side::kKeys ? minusLse[i % 2] : numbers.minusLse[m][i / 2];
        p[m][n][i] = exp2Approximately(fmaf(p[m][n][i], scale, lse));
      }
    }
  }
}

// ds from dp in place; `factorOf` gives what dropout multiplied a probability with.
template <Side kSide, int M, int N, typename FactorOf>
__device__ inline void differentiate(const Tiles<M, N> &p, Tiles<M, N> &ds, const QueryNumbers<kSide, M> &numbers,
                                     FactorOf factorOf) {
  HYC_UNROLL
  for (int n = 0; n < N; ++n) {
    Pack<float, 2> pair{};
    if constexpr (kSide == Side::kKeys) pair = loadPack<2>(numbers.otherD + n * 8 + laneOfWarp() % 4 * 2);
    HYC_UNROLL
    for (int m = 0; m < M; ++m) {
      HYC_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float rowD = kSide == Side::kKeys ? pair.at[i % 2] : numbers.rowD[m][i / 2];
        ds[m][n][i] = p[m][n][i] * factorOf(ds[m][n][i], rowD, m, n, i);
      }
    }
  }
}

// Probabilities (less what dropout leaves out, where they are wanted for dv) and ds of a tile that begins at row
// `firstOther` of query head `head`, from scores and dp in place.
template <Side kSide, bool kDrops, int D, int M, int N>
__device__ inline void differentiateTile(const AttentionDesc &d, const KeepRule &rule, const int64_t *place,
                                         const Share<kSide, D> &share, const QueryNumbers<kSide, M> &numbers, int head,
                                         int firstOther, Tiles<M, N> &p, Tiles<M, N> &ds) {
  constexpr bool kOfKeys = kSide == Side::kKeys;
  exponentiate(p, numbers, static_cast<float>(d.scale) * kLog2E);
  const int firstQuery = kOfKeys ? firstOther : share.firstOwn, firstKey = kOfKeys ? share.firstOwn : firstOther;
  const int endKey = firstKey + (kOfKeys ? kWarpRows<D> : kOtherRows);
  if ((d.causal && firstQuery + share.offset < endKey) || (!kOfKeys && endKey > share.keyLength)) {
    const int limit = kOfKeys ? share.firstOwn + 1 - share.offset : share.firstOwn + share.offset;
    mask<kSide>(p, d.causal, limit - firstOther, share.keyLength - firstOther);
  }
  if constexpr (kDrops) {
    const DropoutStream stream(d, rule, place, share.b, head);
    const Kept<kSide, M, N> kept(stream, firstQuery, firstKey);
    differentiate(p, ds, numbers, [&](float dp, float rowD, int m, int n, int i) {
      return fmaf(kept(m, n, i) ? rule.scale : 0.0f, dp, -rowD);
    });
    if constexpr (kOfKeys) dropOut(kept, p);
  } else {
    differentiate(p, ds, numbers, [](float dp, float rowD, int, int, int) { return dp - rowD; });
  }
}

template <Side kSide, typename T, int D, bool kDrops>
__global__ void __launch_bounds__(kThreads, kResidentBlocks<kSide, D, kDrops>)
    gradientKernel(AttentionDesc d, BlockOrder order, KeepRule rule, const int64_t *place, GradientOperands<T> x) {
  constexpr bool kOfKeys = kSide == Side::kKeys;
  constexpr int M = kOwnTiles<D>, N = kOtherTiles;
  const Share<kSide, D> share(d, order);
  unsigned char *memory = dynamicShared();
  loadOwn(d, share, kOfKeys ? x.k : x.q, kOfKeys ? d.k : d.q, memory);
  loadOwn(d, share, kOfKeys ? x.v : x.dO, kOfKeys ? d.v : d.dO, memory + kOwnBytes<D>);
  commitCopies();
  Arrivals<kSide, T, D> arrivals(d, x, share);
  if (share.steps > 0) arrivals.next(d, x, share, memory, 0);
  commitCopies();

  waitCopies<1>();
  __syncthreads();  // own rows are there
  OwnOperands<kSide, T, D> own;
  own.hold(memory);
  QueryNumbers<kSide, M> numbers;
  if constexpr (!kOfKeys) findNumbers(d, x, share, memory, numbers);

  Tiles<M, D / 8> sums1 = {};
  Tiles<kOfKeys ? M : 1, kOfKeys ? D / 8 : 1> sums2 = {};
  int head = share.firstHead, tile = share.begin;
  for (int step = 0; step < share.steps; ++step) {
    waitCopies<0>();
    __syncthreads();  // the tile is there, and the one before has been read by all
    if (step + 1 < share.steps) {
      arrivals.next(d, x, share, memory, (step + 1) % 2);
      commitCopies();
    }
    const int firstOther = tile * kOtherRows, other = otherAt<D>(step % 2);
    const int lastQuery = (kOfKeys ? firstOther + kOtherRows : share.firstOwn + kWarpRows<D>)-1;
    const bool isSeen = !d.causal || lastQuery + share.offset > (kOfKeys ? share.firstOwn : firstOther);
    if (isSeen && share.firstOwn < share.ownLength) {
      if constexpr (kOfKeys) {
        numbers.otherLse = numbersOf<D>(memory) + step % 2 * 2 * kOtherRows;
        numbers.otherD = numbers.otherLse + kOtherRows;
      }
      Tiles<M, N> p = {}, ds = {};
      own.addProducts(p, ds, memory, other);
      differentiateTile<kSide, kDrops>(d, rule, place, share, numbers, head, firstOther, p, ds);
      if constexpr (kOfKeys) addWeightedRows<D, T>(sums2, p, memory, other + kOtherBytes<D> + bytesToA<D>());
      addWeightedRows<D, T>(sums1, ds, memory, other + bytesToA<D>());
    }
    if (++tile == share.end) {
      tile = share.begin;
      ++head;
    }
  }
  T *scratch = reinterpret_cast<T *>(memory) + warpOfBlock() * kWarpRows<D> * D;  // own₁, which nobody else reads
  const auto store = [&](const auto &sums, float factor, T *base, const HeadStrides &s) {
    float factors[M][2];
    for (int m = 0; m < M; ++m) factors[m][0] = factors[m][1] = factor;
    storeRows<D>(sums, factors, scratch, rowOf(base, s, share.b, share.firstOwn, share.ownHead), s.token,
                 share.ownLength - share.firstOwn, share.headDim);
  };
  store(sums1, static_cast<float>(d.scale), kOfKeys ? x.dk : x.dq, kOfKeys ? d.dk : d.dq);
  if constexpr (kOfKeys) store(sums2, rule.scale, x.dv, d.dv);
}

template <Side kSide, typename T, int D, bool kDrops>
void launchSide(Stream stream, const AttentionDesc &d, const int64_t *place, const GradientOperands<T> &operands) {
  constexpr bool kOfKeys = kSide == Side::kKeys;
  const int64_t walkedRows = kOfKeys ? d.queryLength * (d.heads / d.kvHeads) : d.keyLength;
  const BlockOrder order(kOfKeys ? d.keyLength : d.queryLength, kOwnRows<D>, d.batch * (kOfKeys ? d.kvHeads : d.heads),
                         2 * walkedRows * d.headDim * static_cast<int64_t>(sizeof(T)));
  const Grid grid{dim3(order.blocks()), dim3(kThreads), static_cast<size_t>(kSharedBytes<D>)};
  kernel(gradientKernel<kSide, T, D, kDrops>).launch(stream, grid, d, order, KeepRule(d.dropout.rate), place, operands);
}

template <typename T, int D>
void backwardTiledOf(Stream stream, const AttentionDesc &d, const int64_t *place, const GradientOperands<T> &operands) {
  if (d.dropout.rate == 0) {
    launchSide<Side::kQueries, T, D, false>(stream, d, place, operands);
    launchSide<Side::kKeys, T, D, false>(stream, d, place, operands);
  } else {
    launchSide<Side::kQueries, T, D, true>(stream, d, place, operands);
    launchSide<Side::kKeys, T, D, true>(stream, d, place, operands);
  }
}

}  // namespace hyc::kernels::cuda::attention

#endif  // HYC_KERNELS_ATTENTION_CUDA_GRADIENT_H_
