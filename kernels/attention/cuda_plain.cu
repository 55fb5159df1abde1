// Attention without tensor cores: a warp a query (or, for dk and dv, a warp a key), whose lanes share out the other
// side's rows for scores and the head's dimensions for sums.
#include "kernels/attention/cuda_order.h"
#include "kernels/attention/cuda_paths.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda::attention {
namespace {

constexpr int kWarps = 8;                                               // rows of a block
constexpr int kTile = kWarp;                                            // rows of the other side at a time: one a lane
constexpr int kParts = static_cast<int>(kAttentionMaxHeadDim) / kWarp;  // dimensions of a lane, at most

// Rows of a tile as f32 in shared memory, one element longer than they are, so that lanes reading down a column meet
// different banks.
struct Tile {
  float *at;
  int dim;
  __device__ float *row(int r) const { return at + r * (dim + 1); }
};
__host__ __device__ constexpr int tileFloats(int rows, int64_t dim) { return rows * static_cast<int>(dim + 1); }

// Rows first … first + rows − 1 of a head, a warp a row; zeros beyond `length`. All threads of the block.
template <typename T>
__device__ void loadTile(const Tile &tile, const T *base, const HeadStrides &s, int64_t b, int64_t head, int64_t first,
                         int rows, int64_t length) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int r = static_cast<int>(threadIdx.x) / kWarp; r < rows; r += kWarps) {
    const T *from = rowOf(base, s, b, first + r, head);
    for (int c = lane; c < tile.dim; c += kWarp)
      tile.row(r)[c] = first + r < length ? static_cast<float>(from[c]) : 0.0f;
  }
}

__device__ inline float dotProduct(const float *x, const float *y, int n) {
  float sum = 0;
  for (int c = 0; c < n; ++c) sum = fmaf(x[c], y[c], sum);
  return sum;
}

// sums[p] += Σ_lanes weight of the lane · tile row of the lane, for this lane's dimensions lane + 32 p.
__device__ inline void addWeighted(float (&sums)[kParts], float weight, const Tile &tile) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int l = 0; l < kTile; ++l) {
    const float w = __shfl_sync(kAllLanes, weight, l);
#pragma unroll
    for (int p = 0; p < kParts; ++p)
      if (lane + p * kWarp < tile.dim) sums[p] = fmaf(w, tile.row(l)[lane + p * kWarp], sums[p]);
  }
}

template <typename T>
__device__ inline void storeRow(const float (&sums)[kParts], float factor, int dim, T *to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int p = 0; p < kParts; ++p)
    if (lane + p * kWarp < dim) to[lane + p * kWarp] = T(sums[p] * factor);
}

// Whose rows a block has, of which the longest begin first.
struct Place {
  int64_t b, head, first;
  int lane, warp;
  __device__ Place(const BlockOrder &order, int64_t heads, bool lastIsLongest)
      : lane(static_cast<int>(threadIdx.x) % kWarp), warp(static_cast<int>(threadIdx.x) / kWarp) {
    int tile, bAndHead;
    order.placeOf(blockIdx.x, tile, bAndHead);
    b = bAndHead / static_cast<int>(heads);
    head = bAndHead % static_cast<int>(heads);
    first = int64_t{lastIsLongest ? static_cast<int>(order.tiles) - 1 - tile : tile} * kWarps;
  }
};

template <typename T>
__global__ void forwardKernel(AttentionDesc d, BlockOrder order, const int64_t *place, Operands<T> x) {
  const Place at(order, d.heads, true);
  const int64_t kvHead = at.head / (d.heads / d.kvHeads), i = at.first + at.warp;
  float *memory = reinterpret_cast<float *>(dynamicShared());
  const int dim = static_cast<int>(d.headDim);
  const Tile queries{memory, dim}, keys{memory + tileFloats(kWarps, d.headDim), dim};
  const Dropout dropout(d, place, at.b, at.head);
  const float scale = static_cast<float>(d.scale);
  loadTile(queries, x.q, d.q, at.b, at.head, at.first, kWarps, d.queryLength);
  float sums[kParts] = {}, max = -__builtin_inff(), sum = 0;
  const int64_t lastQuery = at.first + kWarps < d.queryLength ? at.first + kWarps - 1 : d.queryLength - 1;
  const int64_t end = visibleKeys(d, lastQuery), visible = i < d.queryLength ? visibleKeys(d, i) : 0;
  for (int64_t first = 0; first < end; first += kTile) {
    __syncthreads();
    loadTile(keys, x.k, d.k, at.b, kvHead, first, kTile, d.keyLength);
    __syncthreads();
    const int64_t j = first + at.lane;
    const float score = j < visible && isSeen(d.mask, at.b, at.head, i, j)
                            ? scale * dotProduct(queries.row(at.warp), keys.row(at.lane), dim)
                            : -__builtin_inff();
    const float newMax = warpMax(score > max ? score : max);
    const float shift = newMax == -__builtin_inff() ? 0.0f : newMax, shrink = expf(max - shift);
    const float p = expf(score - shift);
    sum = sum * shrink + warpSum(p);
    max = newMax;
#pragma unroll
    for (int part = 0; part < kParts; ++part) sums[part] *= shrink;
    __syncthreads();
    loadTile(keys, x.v, d.v, at.b, kvHead, first, kTile, d.keyLength);
    __syncthreads();
    addWeighted(sums, dropout.isOn() && p != 0 ? p * dropout.factor(i, j) : p, keys);
  }
  if (i >= d.queryLength) return;
  storeRow(sums, sum > 0 ? 1.0f / sum : 0.0f, dim, rowOf(x.o, d.o, at.b, i, at.head));
  if (at.lane == 0) x.lse[(at.b * d.heads + at.head) * d.queryLength + i] = max + logf(sum);
}

template <typename T>
__global__ void queryGradientKernel(AttentionDesc d, BlockOrder order, const int64_t *place, GradientOperands<T> x) {
  const Place at(order, d.heads, true);
  const int64_t kvHead = at.head / (d.heads / d.kvHeads), i = at.first + at.warp;
  float *memory = reinterpret_cast<float *>(dynamicShared());
  const int dim = static_cast<int>(d.headDim);
  const Tile queries{memory, dim}, gradients{queries.at + tileFloats(kWarps, d.headDim), dim};
  const Tile keys{gradients.at + tileFloats(kWarps, d.headDim), dim};
  const Dropout dropout(d, place, at.b, at.head);
  const float scale = static_cast<float>(d.scale);
  loadTile(queries, x.q, d.q, at.b, at.head, at.first, kWarps, d.queryLength);
  loadTile(gradients, x.dO, d.dO, at.b, at.head, at.first, kWarps, d.queryLength);
  const bool isThere = i < d.queryLength;
  const int64_t row = (at.b * d.heads + at.head) * d.queryLength + i;
  const float lse = isThere ? x.lse[row] : 0.0f, rowD = isThere ? x.rowD[row] : 0.0f;
  float sums[kParts] = {};
  const int64_t lastQuery = at.first + kWarps < d.queryLength ? at.first + kWarps - 1 : d.queryLength - 1;
  const int64_t end = visibleKeys(d, lastQuery), visible = isThere ? visibleKeys(d, i) : 0;
  for (int64_t first = 0; first < end; first += kTile) {
    const int64_t j = first + at.lane;
    __syncthreads();
    loadTile(keys, x.v, d.v, at.b, kvHead, first, kTile, d.keyLength);
    __syncthreads();
    const float dp = dotProduct(gradients.row(at.warp), keys.row(at.lane), dim);
    __syncthreads();
    loadTile(keys, x.k, d.k, at.b, kvHead, first, kTile, d.keyLength);
    __syncthreads();
    const float score = scale * dotProduct(queries.row(at.warp), keys.row(at.lane), dim);
    const float p = j < visible && isSeen(d.mask, at.b, at.head, i, j) ? expf(score - lse) : 0.0f;
    addWeighted(sums, p == 0 ? 0.0f : p * (dropout.factor(i, j) * dp - rowD), keys);
  }
  if (isThere) storeRow(sums, scale, dim, rowOf(x.dq, d.dq, at.b, i, at.head));
}

template <typename T>
__global__ void keyGradientKernel(AttentionDesc d, BlockOrder order, const int64_t *place, GradientOperands<T> x) {
  const Place at(order, d.kvHeads, false);
  const int64_t group = d.heads / d.kvHeads, j = at.first + at.warp;
  float *memory = reinterpret_cast<float *>(dynamicShared());
  const int dim = static_cast<int>(d.headDim);
  const Tile keys{memory, dim}, values{keys.at + tileFloats(kWarps, d.headDim), dim};
  const Tile queries{values.at + tileFloats(kWarps, d.headDim), dim};
  const Tile gradients{queries.at + tileFloats(kTile, d.headDim), dim};
  const float scale = static_cast<float>(d.scale);
  loadTile(keys, x.k, d.k, at.b, at.head, at.first, kWarps, d.keyLength);
  loadTile(values, x.v, d.v, at.b, at.head, at.first, kWarps, d.keyLength);
  float sumsK[kParts] = {}, sumsV[kParts] = {};
  for (int64_t head = at.head * group; head < (at.head + 1) * group; ++head) {
    const Dropout dropout(d, place, at.b, head);
    for (int64_t first = firstQuery(d, at.first) / kTile * kTile; first < d.queryLength; first += kTile) {
      const int64_t i = first + at.lane;
      __syncthreads();
      loadTile(queries, x.q, d.q, at.b, head, first, kTile, d.queryLength);
      loadTile(gradients, x.dO, d.dO, at.b, head, first, kTile, d.queryLength);
      __syncthreads();
      const bool sees =
          i < d.queryLength && j < d.keyLength && j < visibleKeys(d, i) && isSeen(d.mask, at.b, head, i, j);
      const int64_t row = (at.b * d.heads + head) * d.queryLength + i;
      float p = 0, ds = 0;
      if (sees) {
        p = expf(scale * dotProduct(keys.row(at.warp), queries.row(at.lane), dim) - x.lse[row]);
        const float kept = dropout.factor(i, j);
        ds = p * (kept * dotProduct(values.row(at.warp), gradients.row(at.lane), dim) - x.rowD[row]);
        p = p * kept;
      }
      addWeighted(sumsV, p, gradients);
      addWeighted(sumsK, ds, queries);
    }
  }
  if (j >= d.keyLength) return;
  storeRow(sumsK, scale, dim, rowOf(x.dk, d.dk, at.b, j, at.head));
  storeRow(sumsV, 1.0f, dim, rowOf(x.dv, d.dv, at.b, j, at.head));
}

// Blocks of kWarps rows, with `tileRows` rows in shared memory.
Grid gridOf(const BlockOrder &order, int tileRows, int64_t dim) {
  return {dim3(order.blocks()), dim3(kWarps * kWarp), static_cast<size_t>(tileFloats(tileRows, dim)) * sizeof(float)};
}
// Queries walk over K and V, keys over Q and dO of all heads of their group.
template <typename T>
BlockOrder orderOfQueries(const AttentionDesc &d) {
  return {d.queryLength, kWarps, d.batch * d.heads, 2 * d.keyLength * d.headDim * static_cast<int64_t>(sizeof(T))};
}
template <typename T>
BlockOrder orderOfKeys(const AttentionDesc &d) {
  return {d.keyLength, kWarps, d.batch * d.kvHeads,
          2 * d.queryLength * (d.heads / d.kvHeads) * d.headDim * static_cast<int64_t>(sizeof(T))};
}

}  // namespace

template <typename T>
void forwardPlain(Stream stream, const AttentionDesc &d, const int64_t *place, const Operands<T> &operands) {
  const BlockOrder order = orderOfQueries<T>(d);
  kernel(forwardKernel<T>).launch(stream, gridOf(order, kWarps + kTile, d.headDim), d, order, place, operands);
}

template <typename T>
void backwardPlain(Stream stream, const AttentionDesc &d, const int64_t *place, const GradientOperands<T> &operands) {
  const BlockOrder queries = orderOfQueries<T>(d), keys = orderOfKeys<T>(d);
  kernel(queryGradientKernel<T>)
      .launch(stream, gridOf(queries, 2 * kWarps + kTile, d.headDim), d, queries, place, operands);
  kernel(keyGradientKernel<T>)
      .launch(stream, gridOf(keys, 2 * kWarps + 2 * kTile, d.headDim), d, keys, place, operands);
}

#define HYC_INSTANTIATE(T)                                                                            \
  template void forwardPlain<T>(Stream, const AttentionDesc &, const int64_t *, const Operands<T> &); \
  template void backwardPlain<T>(Stream, const AttentionDesc &, const int64_t *, const GradientOperands<T> &);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda::attention
