// Attention forward on tensor cores: a block has 64 queries of a head, and walks over tiles of 64 keys, of which the
// next is on its way while one is worked on. Maxima and sums of a row are kept by the four lanes that hold it.
#include "kernels/attention/cuda_paths.h"
#include "kernels/attention/cuda_tensor.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda::attention {
namespace {

// Of rows g and g + 8; `most` in units of log2.
struct Softmax {
  float most[2] = {-__builtin_inff(), -__builtin_inff()};
  float sum[2] = {0, 0};
};

template <typename Combine>
__device__ inline float overRow(float value, Combine combine) {
  value = combine(value, __shfl_xor_sync(kAllLanes, value, 1));
  return combine(value, __shfl_xor_sync(kAllLanes, value, 2));
}
__device__ inline float larger(float x, float y) { return x > y || x != x ? x : y; }

// Scores, in units of log2, to probabilities over the sum's current reference; gives what older sums shrink by.
__device__ inline void takeIn(Softmax &state, Scores &scores, float (&shrink)[2]) {
  for (int half = 0; half < 2; ++half) {
    float most = state.most[half];
    HYC_UNROLL
    for (int n = 0; n < kTile / 8; ++n) most = larger(larger(scores[n][2 * half], scores[n][2 * half + 1]), most);
    most = overRow(most, larger);
    const float shift = most == -__builtin_inff() ? 0.0f : most;  // a row that has seen no key yet
    shrink[half] = exp2f(state.most[half] - shift);
    float sum = 0;
    HYC_UNROLL
    for (int n = 0; n < kTile / 8; ++n) {
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = exp2f(scores[n][i] - shift);
        sum += scores[n][i];
      }
    }
    state.sum[half] = state.sum[half] * shrink[half] + overRow(sum, [](float x, float y) { return x + y; });
    state.most[half] = most;
  }
}

template <typename T, int D>
__global__ void __launch_bounds__(kThreads) forwardKernel(AttentionDesc d, const int64_t *place, Operands<T> x) {
  // The last queries see the most keys: they begin first.
  const int64_t firstQuery = int64_t{gridDim.x - 1 - blockIdx.x} * kTile, head = blockIdx.y, b = blockIdx.z;
  const int64_t kvHead = head / (d.heads / d.kvHeads);
  T *queries = reinterpret_cast<T *>(dynamicShared());
  T *keys[2] = {queries + kTileElements<D>, queries + 3 * kTileElements<D>};
  T *values[2] = {queries + 2 * kTileElements<D>, queries + 4 * kTileElements<D>};
  const Rows<T> k = rowsOf(x.k, d.k, b, kvHead, d.keyLength), v = rowsOf(x.v, d.v, b, kvHead, d.keyLength);
  const int64_t lastQuery = (firstQuery + kTile < d.queryLength ? firstQuery + kTile : d.queryLength) - 1;
  const int64_t tiles = (visibleKeys(d, lastQuery) + kTile - 1) / kTile;
  loadTile<D>(queries, rowsOf(x.q, d.q, b, head, d.queryLength), firstQuery, d.headDim);
  if (tiles > 0) {
    loadTile<D>(keys[0], k, 0, d.headDim);
    loadTile<D>(values[0], v, 0, d.headDim);
  }
  commitCopies();

  const int warp = static_cast<int>(threadIdx.x) / kWarp, g = laneOfWarp() / 4, t = laneOfWarp() % 4;
  T *own = queries + warp * kWarpRows * kRow<D>;
  const int64_t firstRow = firstQuery + warp * kWarpRows;
  const float scale = static_cast<float>(d.scale) * kLog2E;
  const Dropout dropout(d, place, b, head);
  Softmax state;
  float sums[D / 8][4] = {};
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int now = static_cast<int>(tile % 2);
    if (tile + 1 < tiles) {
      loadTile<D>(keys[1 - now], k, (tile + 1) * kTile, d.headDim);
      loadTile<D>(values[1 - now], v, (tile + 1) * kTile, d.headDim);
      commitCopies();
      waitCopies<1>();
    } else {
      waitCopies<0>();
    }
    __syncthreads();
    Scores scores = {};
    addProductOfRows<D>(scores, own, keys[now]);
    const bool isWhole = (tile + 1) * kTile <= visibleKeys(d, firstRow) && (tile + 1) * kTile <= d.keyLength;
    HYC_UNROLL
    for (int n = 0; n < kTile / 8; ++n) {
      HYC_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int64_t row = firstRow + g + i / 2 * 8, key = tile * kTile + n * 8 + 2 * t + i % 2;
        const bool sees = isWhole || (key < d.keyLength && key < visibleKeys(d, row));
        scores[n][i] = sees ? scores[n][i] * scale : -__builtin_inff();
      }
    }
    float shrink[2];
    takeIn(state, scores, shrink);
    HYC_UNROLL
    for (int n = 0; n < D / 8; ++n)
      for (int i = 0; i < 4; ++i) sums[n][i] *= shrink[i / 2];
    if (dropout.isOn()) {
      for (int n = 0; n < kTile / 8; ++n)
        for (int i = 0; i < 4; ++i)
          scores[n][i] *= dropout.factor(firstRow + g + i / 2 * 8, tile * kTile + n * 8 + 2 * t + i % 2);
    }
    addWeightedRows<D>(sums, scores, values[now]);
    __syncthreads();
  }
  waitCopies<0>();
  __syncthreads();
  float inverse[2];
  for (int half = 0; half < 2; ++half) {
    const int64_t row = firstRow + g + 8 * half;
    inverse[half] = state.sum[half] > 0 ? 1.0f / state.sum[half] : 0.0f;
    if (t == 0 && row < d.queryLength)
      x.lse[(b * d.heads + head) * d.queryLength + row] = (state.most[half] + log2f(state.sum[half])) * kLn2;
  }
  storeRows<D>(sums, inverse, own, rowOf(x.o, d.o, b, firstRow, head), d.o.token, d.queryLength - firstRow, d.headDim);
}

template <typename T, int D>
void launch(Stream stream, const AttentionDesc &d, const int64_t *place, const Operands<T> &operands) {
  const Grid grid{dim3(static_cast<unsigned>((d.queryLength + kTile - 1) / kTile), static_cast<unsigned>(d.heads),
                       static_cast<unsigned>(d.batch)),
                  dim3(kThreads), 5 * kTileElements<D> * sizeof(T)};
  kernel(forwardKernel<T, D>).launch(stream, grid, d, place, operands);
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
