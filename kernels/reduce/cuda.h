// The loops of generated reductions on GPUs: the trees of op.h, so that the bits are those of loops.h wherever the
// element's own operations give the same bits.
//
// Used inside a kernel, by all threads of all blocks of the grid that the function beside it gives; `element` and
// `finish` are as in loops.h.
#ifndef HYC_KERNELS_REDUCE_CUDA_H_
#define HYC_KERNELS_REDUCE_CUDA_H_

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/reduce/op.h"

namespace hyc::kernels::cuda {

struct ReduceSpace {
  int64_t outer = 1, steps = 1, inner = 1;
};

constexpr int kRowWarps = 8;                            // of a block that reduces rows
constexpr int kColumnThreads = 32, kColumnBlocks = 16;  // columns of a block, and their blocks of steps at a time
constexpr int64_t kRowBlocksAtOnce = 256;               // blocks of a long row whose results wait for their order

// A warp a short row; a block a long one.
inline Grid reduceRowsGrid(const ReduceSpace &space) {
  const bool isLong = RowBlocks(space.steps, space.inner).count > 1;
  const int64_t blocks = isLong ? space.outer : (space.outer + kRowWarps - 1) / kRowWarps;
  return {dim3(static_cast<unsigned>(blocks)), dim3(kRowWarps * kWarp)};
}
inline Grid reduceColumnsGrid(const ReduceSpace &space) {
  return {dim3(static_cast<unsigned>((space.inner + kColumnThreads - 1) / kColumnThreads),
               static_cast<unsigned>(space.outer)),
          dim3(kColumnThreads, kColumnBlocks)};
}

namespace reduce_detail {

// One accumulator for each combination, trivial so that it may lie in shared memory.
template <typename... Combine>
struct Values {
  __device__ void reset() {}
  __device__ void combineWith(const Values &) {}
  __device__ void combineLanes(int) {}
  template <typename Call, typename... Before>
  __device__ void pass(const Call &call, Before &...before) {
    call(before...);
  }
};
template <typename First, typename... Rest>
struct Values<First, Rest...> {
  typename First::Value first;
  Values<Rest...> rest;

  __device__ void reset() {
    first = First::identity();
    rest.reset();
  }
  __device__ void combineWith(const Values &other) {
    first = First::combine(first, other.first);
    rest.combineWith(other.rest);
  }
  // With the lane that is `apart` away.
  __device__ void combineLanes(int apart) {
    first = First::combine(first, __shfl_xor_sync(kAllLanes, first, apart));
    rest.combineLanes(apart);
  }
  // Calls `call` with all accumulators.
  template <typename Call, typename... Before>
  __device__ void pass(const Call &call, Before &...before) {
    rest.pass(call, before..., first);
  }
};

// A warp's block of a row; the result is in lane 0.
template <typename... Combine, typename Element>
__device__ Values<Combine...> rowBlock(const RowBlocks::Range &range, int64_t outer, const Element &element) {
  Values<Combine...> lanes;
  lanes.reset();
  for (int64_t step = range.firstStep; step < range.endStep; ++step)
    for (int64_t i = range.first + threadIdx.x % kWarp; i < range.end; i += kWarp)
      lanes.pass([&](auto &...accumulators) { element(outer, step, i, accumulators...); });
  for (int apart = kWarp / 2; apart > 0; apart /= 2) lanes.combineLanes(apart);
  return lanes;
}

}  // namespace reduce_detail

template <typename... Combine, typename Element, typename Finish>
__device__ void reduceRows(const ReduceSpace &space, const Element &element, const Finish &finish) {
  using Values = reduce_detail::Values<Combine...>;
  const RowBlocks blocks(space.steps, space.inner);
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  Values total;
  total.reset();
  if (blocks.count <= 1) {
    const int64_t outer = int64_t{blockIdx.x} * kRowWarps + warp;
    if (outer >= space.outer) return;
    if (blocks.count == 1) total.combineWith(reduce_detail::rowBlock<Combine...>(blocks.range(0), outer, element));
    if (lane == 0) total.pass([&](auto &...results) { finish(outer, results...); });
    return;
  }
  __shared__ Values partial[kRowBlocksAtOnce];
  const int64_t outer = blockIdx.x;
  for (int64_t first = 0; first < blocks.count; first += kRowBlocksAtOnce) {
    const int64_t count = blocks.count - first < kRowBlocksAtOnce ? blocks.count - first : kRowBlocksAtOnce;
    for (int64_t i = warp; i < count; i += kRowWarps) {
      const Values result = reduce_detail::rowBlock<Combine...>(blocks.range(first + i), outer, element);
      if (lane == 0) partial[i] = result;
    }
    __syncthreads();
    if (threadIdx.x == 0)
      for (int64_t i = 0; i < count; ++i) total.combineWith(partial[i]);
    __syncthreads();
  }
  if (threadIdx.x == 0) total.pass([&](auto &...results) { finish(outer, results...); });
}

template <typename... Combine, typename Element, typename Finish>
__device__ void reduceColumns(const ReduceSpace &space, const Element &element, const Finish &finish) {
  using Values = reduce_detail::Values<Combine...>;
  __shared__ Values partial[kColumnBlocks][kColumnThreads];
  const int64_t column = int64_t{blockIdx.x} * kColumnThreads + threadIdx.x, outer = blockIdx.y;
  const int64_t blocks = (space.steps + kColumnBlock - 1) / kColumnBlock;
  Values total;
  total.reset();
  for (int64_t first = 0; first < blocks; first += kColumnBlocks) {
    const int64_t begin = (first + threadIdx.y) * kColumnBlock;
    const int64_t end = begin + kColumnBlock < space.steps ? begin + kColumnBlock : space.steps;
    Values own;
    own.reset();
    if (column < space.inner)
      for (int64_t step = begin; step < end; ++step)
        own.pass([&](auto &...accumulators) { element(outer, step, column, accumulators...); });
    partial[threadIdx.y][threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.y == 0)
      for (int i = 0; i < kColumnBlocks && first + i < blocks; ++i) total.combineWith(partial[i][threadIdx.x]);
    __syncthreads();
  }
  if (threadIdx.y == 0 && column < space.inner)
    total.pass([&](auto &...results) { finish(outer, column, results...); });
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_REDUCE_CUDA_H_
