// Attention backward on tensor cores, in two kernels of one form: a block has 64 rows of its own side, queries or keys,
// and walks over the tiles of the other side. With own rows (Q, dO) and others (K, V), or (K, V) and (Q, dO):
//
//   s = own₁ · other₁ᵀ, dp = own₂ · other₂ᵀ, p = exp(scale · s − lse), ds = p · (dp − D)
//   dq or dk = scale · Σ ds · other₁;  of keys also dv = Σ p · other₂
//
// The kernels are the long part of what nvcc compiles: each cuda_backward_<type>_<dimensions>.cu makes those of one
// type and width, so that they are compiled side by side.
#ifndef HYC_KERNELS_ATTENTION_CUDA_GRADIENT_H_
#define HYC_KERNELS_ATTENTION_CUDA_GRADIENT_H_

#include "kernels/attention/cuda_paths.h"
#include "kernels/attention/cuda_tensor.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda::attention {

enum class Side { kQueries, kKeys };

// Two buffers of the other side's tiles where shared memory has room for them on every GPU.
template <int D>
constexpr int kBuffers = D <= 64 ? 2 : 1;

// What walks along the other side: its tiles, and of queries their lse and D.
template <typename T, int D>
struct Other {
  T *first[kBuffers<D>], *second[kBuffers<D>];
  Rows<T> firstRows, secondRows;

  __device__ void load(int buffer, int64_t row, int64_t headDim) const {
    loadTile<D>(first[buffer], firstRows, row, headDim);
    loadTile<D>(second[buffer], secondRows, row, headDim);
    commitCopies();
  }
};

struct RowNumbers {
  const float *lse, *rowD;
};

// One tile: probabilities into `p` (times what dropout leaves of them, where they are wanted for dv) and ds.
template <Side kSide, typename T, int D>
__device__ inline void differentiateTile(const AttentionDesc &d, const Dropout &dropout, const T *own1, const T *own2,
                                         const T *other1, const T *other2, const RowNumbers &numbers, int64_t firstOwn,
                                         int64_t firstOther, Scores &p, Scores &ds) {
  const int g = laneOfWarp() / 4, t = laneOfWarp() % 4;
  const float scale = static_cast<float>(d.scale) * kLog2E;
  addProductOfRows<D>(p, own1, other1);
  addProductOfRows<D>(ds, own2, other2);
  HYC_UNROLL
  for (int n = 0; n < kTile / 8; ++n) {
    HYC_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int ownRow = g + i / 2 * 8, otherRow = n * 8 + 2 * t + i % 2;
      const int64_t query = kSide == Side::kQueries ? firstOwn + ownRow : firstOther + otherRow;
      const int64_t key = kSide == Side::kQueries ? firstOther + otherRow : firstOwn + ownRow;
      const int number = kSide == Side::kQueries ? ownRow : otherRow;
      const bool sees = query < d.queryLength && key < d.keyLength && key < visibleKeys(d, query);
      const float probability = sees ? exp2f(p[n][i] * scale - numbers.lse[number] * kLog2E) : 0.0f;
      const float kept = dropout.isOn() && sees ? dropout.factor(query, key) : 1.0f;
      ds[n][i] = probability * (kept * ds[n][i] - numbers.rowD[number]);
      p[n][i] = probability * kept;
    }
  }
}

template <Side kSide, typename T, int D>
__global__ void __launch_bounds__(kThreads)
    gradientKernel(AttentionDesc d, const int64_t *place, GradientOperands<T> x) {
  constexpr bool kOfKeys = kSide == Side::kKeys;
  __shared__ float lse[kTile], rowD[kTile];
  const int64_t group = d.heads / d.kvHeads, b = blockIdx.z;
  const int64_t blocks = gridDim.x, number = kOfKeys ? int64_t{blockIdx.x} : blocks - 1 - blockIdx.x;
  const int64_t firstOfBlock = number * kTile, ownHead = blockIdx.y, kvHead = kOfKeys ? ownHead : ownHead / group;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  T *memory = reinterpret_cast<T *>(dynamicShared());
  T *tile1 = memory, *tile2 = memory + kTileElements<D>;
  Other<T, D> other;
  for (int i = 0; i < kBuffers<D>; ++i) {
    other.first[i] = memory + (2 + 2 * i) * kTileElements<D>;
    other.second[i] = memory + (3 + 2 * i) * kTileElements<D>;
  }
  const Rows<T> k = rowsOf(x.k, d.k, b, kvHead, d.keyLength), v = rowsOf(x.v, d.v, b, kvHead, d.keyLength);
  T *own1 = tile1 + warp * kWarpRows * kRow<D>, *own2 = tile2 + warp * kWarpRows * kRow<D>;
  const int64_t firstOwn = firstOfBlock + warp * kWarpRows, ownLength = kOfKeys ? d.keyLength : d.queryLength;
  float sums1[D / 8][4] = {}, sums2[kOfKeys ? D / 8 : 1][4] = {};

  // Keys are read by all query heads of their group, one after the other.
  const int64_t endHead = kOfKeys ? (ownHead + 1) * group : ownHead + 1;
  for (int64_t head = kOfKeys ? ownHead * group : ownHead; head < endHead; ++head) {
    const Rows<T> q = rowsOf(x.q, d.q, b, head, d.queryLength), dO = rowsOf(x.dO, d.dO, b, head, d.queryLength);
    const float *headLse = x.lse + (b * d.heads + head) * d.queryLength;
    const float *headD = x.rowD + (b * d.heads + head) * d.queryLength;
    const auto loadNumbers = [&](int64_t first) {
      for (int i = static_cast<int>(threadIdx.x); i < kTile; i += kThreads) {
        const bool isThere = first + i < d.queryLength;
        lse[i] = isThere ? headLse[first + i] : 0.0f;
        rowD[i] = isThere ? headD[first + i] : 0.0f;
      }
    };
    const Dropout dropout(d, place, b, head);
    __syncthreads();  // the head before has been read
    loadTile<D>(tile1, kOfKeys ? k : q, firstOfBlock, d.headDim);
    loadTile<D>(tile2, kOfKeys ? v : dO, firstOfBlock, d.headDim);
    other.firstRows = kOfKeys ? q : k;
    other.secondRows = kOfKeys ? dO : v;
    if (!kOfKeys) loadNumbers(firstOfBlock);
    const int64_t lastQuery = (firstOfBlock + kTile < d.queryLength ? firstOfBlock + kTile : d.queryLength) - 1;
    const int64_t begin = kOfKeys ? firstQuery(d, firstOfBlock) / kTile : 0;
    const int64_t end = ((kOfKeys ? d.queryLength : visibleKeys(d, lastQuery)) + kTile - 1) / kTile;
    if (kBuffers<D> == 2 && begin < end) other.load(0, begin * kTile, d.headDim);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int now = kBuffers<D> == 2 ? static_cast<int>((tile - begin) % 2) : 0;
      if (kBuffers<D> == 1) {
        other.load(0, tile * kTile, d.headDim);
        waitCopies<0>();
      } else if (tile + 1 < end) {
        other.load(1 - now, (tile + 1) * kTile, d.headDim);
        waitCopies<1>();
      } else {
        waitCopies<0>();
      }
      if (kOfKeys) loadNumbers(tile * kTile);
      __syncthreads();
      Scores p = {}, ds = {};
      const RowNumbers numbers =
          kOfKeys ? RowNumbers{lse, rowD} : RowNumbers{lse + warp * kWarpRows, rowD + warp * kWarpRows};
      differentiateTile<kSide, T, D>(d, dropout, own1, own2, other.first[now], other.second[now], numbers, firstOwn,
                                     tile * kTile, p, ds);
      addWeightedRows<D>(sums1, ds, other.first[now]);
      if constexpr (kOfKeys) addWeightedRows<D>(sums2, p, other.second[now]);
      __syncthreads();
    }
    waitCopies<0>();  // own tiles too, where no other tile was
  }
  __syncthreads();
  const float scale[2] = {static_cast<float>(d.scale), static_cast<float>(d.scale)}, one[2] = {1.0f, 1.0f};
  const int64_t left = ownLength - firstOwn;
  if constexpr (kOfKeys) {
    storeRows<D>(sums1, scale, own1, rowOf(x.dk, d.dk, b, firstOwn, ownHead), d.dk.token, left, d.headDim);
    storeRows<D>(sums2, one, own1, rowOf(x.dv, d.dv, b, firstOwn, ownHead), d.dv.token, left, d.headDim);
  } else {
    storeRows<D>(sums1, scale, own1, rowOf(x.dq, d.dq, b, firstOwn, ownHead), d.dq.token, left, d.headDim);
  }
}

template <Side kSide, typename T, int D>
void launchSide(Stream stream, const AttentionDesc &d, const int64_t *place, const GradientOperands<T> &operands) {
  const int64_t rows = kSide == Side::kKeys ? d.keyLength : d.queryLength;
  const int64_t heads = kSide == Side::kKeys ? d.kvHeads : d.heads;
  const Grid grid{dim3(static_cast<unsigned>((rows + kTile - 1) / kTile), static_cast<unsigned>(heads),
                       static_cast<unsigned>(d.batch)),
                  dim3(kThreads), (2 + 2 * kBuffers<D>)*kTileElements<D> * sizeof(T)};
  kernel(gradientKernel<kSide, T, D>).launch(stream, grid, d, place, operands);
}

template <typename T, int D>
void backwardTiledOf(Stream stream, const AttentionDesc &d, const int64_t *place, const GradientOperands<T> &operands) {
  launchSide<Side::kQueries, T, D>(stream, d, place, operands);
  launchSide<Side::kKeys, T, D>(stream, d, place, operands);
}

}  // namespace hyc::kernels::cuda::attention

#endif  // HYC_KERNELS_ATTENTION_CUDA_GRADIENT_H_
