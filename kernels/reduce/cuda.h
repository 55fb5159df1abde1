// The loops of generated reductions on GPUs: the trees of op.h, so that the bits are those of loops.h wherever the
// element's own operations give the same bits.
//
// What is done with one element comes in three parts, so that a thread has the loads of several elements under way
// before it computes with the first and writes it (a store may be over an operand, which no load passes):
//
//   at = load(Count<n>, outer, step, inner)        n elements beside each other, as the kernel wants them
//   element(at, j, outer, step, inner + j, accumulators…)     the jth of them; may put results of its own into `at`
//   store(at, outer, step, inner)                  writes those
//
// and finish(outer[, inner], totals…) is called once a result. Where a result has several blocks, each block's result
// goes to `workspace` (reducePartialCount of op.h) and a second kernel combines them in their order: threads are then
// as many as blocks. Without workspace one thread (of rows: one warp) takes all blocks of a result.
//
// Threads walk on by the size of the grid: any grid is enough.
#ifndef HYC_KERNELS_REDUCE_CUDA_H_
#define HYC_KERNELS_REDUCE_CUDA_H_

#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/reduce/op.h"

namespace hyc::kernels::cuda {

struct ReduceSpace {
  int64_t outer = 1, steps = 1, inner = 1;
};
template <int n>
struct Count {
  static constexpr int value = n;
};

constexpr int kReduceThreads = 128;
constexpr int64_t kMostReduceBlocks = int64_t{1} << 20;

namespace reduce_detail {

// Blocks of one result that are done side by side.
HYC_HOST_DEVICE inline int64_t rowSlices(const ReduceSpace &space, const void *workspace) {
  return workspace ? RowBlocks(space.steps, space.inner).count : 1;
}
HYC_HOST_DEVICE inline int64_t columnSlices(const ReduceSpace &space, const void *workspace) {
  return workspace ? columnBlockCount(space.steps) : 1;
}

}  // namespace reduce_detail

inline Grid reduceRowsGrid(const ReduceSpace &space, const void *workspace) {
  return gridOver(space.outer * reduce_detail::rowSlices(space, workspace) * kWarp, kReduceThreads, kMostReduceBlocks);
}
inline Grid reduceColumnsGrid(const ReduceSpace &space, int pack, const void *workspace) {
  return gridOver(space.outer * reduce_detail::columnSlices(space, workspace) * (space.inner / pack), kReduceThreads,
                  kMostReduceBlocks);
}
inline Grid combineRowsGrid(const ReduceSpace &space) { return gridOver(space.outer * kWarp, kReduceThreads); }
inline Grid combineColumnsGrid(const ReduceSpace &space) { return gridOver(space.outer * space.inner, 64); }

namespace reduce_detail {

// One accumulator for each combination, trivial so that arrays of them stay in registers.
template <typename... Combine>
struct Values {
  __device__ void reset() {}
  __device__ void combineWith(const Values &) {}
  __device__ void combineLanes(int) {}
  __device__ void takeFromLane(int) {}
  __device__ void save(void *, int64_t, int64_t) const {}
  __device__ void restore(const void *, int64_t, int64_t) {}
  template <typename Call, typename... Before>
  __device__ void pass(const Call &call, Before &...before) {
    call(before...);
  }
};
template <typename First, typename... Rest>
struct Values<First, Rest...> {
  using Value = typename First::Value;
  Value first;
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
  __device__ void takeFromLane(int lane) {
    first = __shfl_sync(kAllLanes, first, lane);
    rest.takeFromLane(lane);
  }
  // Entry `index` of arrays of `count`, one a combination, each of whole kPartialAlignment bytes.
  __device__ void save(void *arrays, int64_t index, int64_t count) const {
    static_cast<Value *>(arrays)[index] = first;
    rest.save(static_cast<char *>(arrays) + partialBytes(count, sizeof(Value)), index, count);
  }
  __device__ void restore(const void *arrays, int64_t index, int64_t count) {
    first = static_cast<const Value *>(arrays)[index];
    rest.restore(static_cast<const char *>(arrays) + partialBytes(count, sizeof(Value)), index, count);
  }
  // Calls `call` with all accumulators.
  template <typename Call, typename... Before>
  __device__ void pass(const Call &call, Before &...before) {
    rest.pass(call, before..., first);
  }
};

// Steps of n elements whose loads are under way at once, as far as there are registers and instructions for.
template <typename Elements, int n>
constexpr int kStepsAhead = n >= 8 || sizeof(Elements) > 64   ? 2
                            : n >= 4 || sizeof(Elements) > 32 ? 4
                                                              : 8;

// kSteps steps of n columns: all are loaded, then computed.
template <int kSteps, int n, typename Index, typename Values, typename Load, typename Element, typename Store>
__device__ void columnSteps(Index outer, Index step, Index column, Values (&own)[n], const Load &load,
                            const Element &element, const Store &store) {
  decltype(load(Count<n>(), outer, step, column)) at[kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) at[s] = load(Count<n>(), outer, static_cast<Index>(step + s), column);
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const Index now = step + s;
#pragma unroll
    for (int j = 0; j < n; ++j)
      own[j].pass([&](auto &...accumulators) {
        element(at[s], j, outer, now, static_cast<Index>(column + j), accumulators...);
      });
    store(at[s], outer, now, column);
  }
}

template <int n, typename Index, typename Values, typename Load, typename Element, typename Store, typename Finish>
__device__ void columns(const ReduceSpace &space, void *workspace, const Load &load, const Element &element,
                        const Store &store, const Finish &finish) {
  constexpr int kAhead = kStepsAhead<decltype(load(Count<n>(), Index(), Index(), Index())), n>;
  const Index packs = static_cast<Index>(space.inner / n), steps = static_cast<Index>(space.steps);
  const Index blocks = static_cast<Index>(columnBlockCount(space.steps));
  const Index slices = static_cast<Index>(columnSlices(space, workspace));
  forEach(space.outer * slices * packs, [&](int64_t number) {
    const Index job = static_cast<Index>(number), column = job % packs * n, slice = job / packs % slices;
    const Index outer = job / packs / slices;
    Values total[n];
#pragma unroll
    for (int j = 0; j < n; ++j) total[j].reset();
    for (Index block = slice; block < blocks; block += slices) {
      Values own[n];
#pragma unroll
      for (int j = 0; j < n; ++j) own[j].reset();
      Index step = block * static_cast<Index>(kColumnBlock);
      const Index left = steps - step, end = step + (left < kColumnBlock ? left : static_cast<Index>(kColumnBlock));
      for (; step + kAhead <= end; step += kAhead) columnSteps<kAhead>(outer, step, column, own, load, element, store);
      for (; step < end; ++step) columnSteps<1>(outer, step, column, own, load, element, store);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        if (workspace)
          own[j].save(workspace, (int64_t{outer} * blocks + block) * space.inner + column + j,
                      space.outer * blocks * space.inner);
        else
          total[j].combineWith(own[j]);
      }
    }
    if (workspace) return;
#pragma unroll
    for (int j = 0; j < n; ++j)
      total[j].pass([&](auto &...results) { finish(outer, static_cast<Index>(column + j), results...); });
  });
}

// A warp's block of a row; the result is in lane 0.
template <typename Index, typename Values, typename Load, typename Element, typename Store>
__device__ Values rowBlock(const RowBlocks::Range &range, Index outer, const Load &load, const Element &element,
                           const Store &store) {
  using Elements = decltype(load(Count<1>(), outer, outer, outer));
  constexpr int kAhead = kStepsAhead<Elements, 1>;
  Values lanes;
  lanes.reset();
  const Index end = static_cast<Index>(range.end);
  for (Index step = static_cast<Index>(range.firstStep); step < static_cast<Index>(range.endStep); ++step) {
    Index i = static_cast<Index>(range.first) + static_cast<Index>(threadIdx.x % kWarp);
    const auto combine = [&](Elements &at, Index inner) {
      lanes.pass([&](auto &...accumulators) { element(at, 0, outer, step, inner, accumulators...); });
      store(at, outer, step, inner);
    };
    for (; i + (kAhead - 1) * kWarp < end; i += kAhead * kWarp) {
      Elements at[kAhead];
#pragma unroll
      for (int s = 0; s < kAhead; ++s) at[s] = load(Count<1>(), outer, step, static_cast<Index>(i + s * kWarp));
#pragma unroll
      for (int s = 0; s < kAhead; ++s) combine(at[s], static_cast<Index>(i + s * kWarp));
    }
    for (; i < end; i += kWarp) {
      Elements at = load(Count<1>(), outer, step, i);
      combine(at, i);
    }
  }
  for (int apart = kWarp / 2; apart > 0; apart /= 2) lanes.combineLanes(apart);
  return lanes;
}

// Calls use(job) for every job below `count`, the same in all lanes of a warp.
template <typename Use>
__device__ void forEachWarp(int64_t count, Use use) {
  const int64_t warps = int64_t{gridDim.x} * (blockDim.x / kWarp);
  for (int64_t job = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp; job < count; job += warps) use(job);
}

}  // namespace reduce_detail

// finish(outer, totals…). Index: int32_t where all positions fit, else int64_t.
template <typename Index, typename... Combine, typename Load, typename Element, typename Store, typename Finish>
__device__ void reduceRows(const ReduceSpace &space, void *workspace, const Load &load, const Element &element,
                           const Store &store, const Finish &finish) {
  using Values = reduce_detail::Values<Combine...>;
  const RowBlocks blocks(space.steps, space.inner);
  const int64_t slices = reduce_detail::rowSlices(space, workspace);
  const bool isFirstLane = threadIdx.x % kWarp == 0;
  reduce_detail::forEachWarp(space.outer * slices, [&](int64_t job) {
    const Index outer = static_cast<Index>(job / slices);
    Values total;
    total.reset();
    for (int64_t block = job % slices; block < blocks.count; block += slices) {
      const Values own = reduce_detail::rowBlock<Index, Values>(blocks.range(block), outer, load, element, store);
      if (!workspace)
        total.combineWith(own);
      else if (isFirstLane)
        own.save(workspace, job, space.outer * slices);
    }
    if (!workspace && isFirstLane) total.pass([&](auto &...results) { finish(outer, results...); });
  });
}

// The results of the blocks that reduceRows has left in `workspace`.
template <typename Index, typename... Combine, typename Finish>
__device__ void combineRows(const ReduceSpace &space, const void *workspace, const Finish &finish) {
  using Values = reduce_detail::Values<Combine...>;
  const int64_t count = RowBlocks(space.steps, space.inner).count;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  reduce_detail::forEachWarp(space.outer, [&](int64_t outer) {
    Values total;
    total.reset();
    for (int64_t first = 0; first < count; first += kWarp) {
      Values mine;
      mine.reset();
      if (first + lane < count) mine.restore(workspace, outer * count + first + lane, space.outer * count);
      const int here = count - first < kWarp ? static_cast<int>(count - first) : kWarp;
      for (int from = 0; from < here; ++from) {
        Values other = mine;
        other.takeFromLane(from);
        total.combineWith(other);
      }
    }
    if (lane == 0) total.pass([&](auto &...results) { finish(static_cast<Index>(outer), results...); });
  });
}

// finish(outer, inner, totals…). kPack columns a thread where isPacked, which is the same for the whole grid.
template <typename Index, int kPack, typename... Combine, typename Load, typename Element, typename Store,
          typename Finish>
__device__ void reduceColumns(const ReduceSpace &space, void *workspace, bool isPacked, const Load &load,
                              const Element &element, const Store &store, const Finish &finish) {
  using Values = reduce_detail::Values<Combine...>;
  if (kPack > 1 && isPacked)
    reduce_detail::columns<kPack, Index, Values>(space, workspace, load, element, store, finish);
  else
    reduce_detail::columns<1, Index, Values>(space, workspace, load, element, store, finish);
}

// The results of the blocks that reduceColumns has left in `workspace`.
template <typename Index, typename... Combine, typename Finish>
__device__ void combineColumns(const ReduceSpace &space, const void *workspace, const Finish &finish) {
  using Values = reduce_detail::Values<Combine...>;
  constexpr int kAhead = 16;
  const int64_t blocks = columnBlockCount(space.steps), count = space.outer * blocks * space.inner;
  forEach(space.outer * space.inner, [&](int64_t result) {
    const int64_t outer = result / space.inner, column = result % space.inner;
    Values total;
    total.reset();
    for (int64_t first = 0; first < blocks; first += kAhead) {
      const int64_t here = blocks - first < kAhead ? blocks - first : kAhead;
      Values parts[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        if (i < here) parts[i].restore(workspace, (outer * blocks + first + i) * space.inner + column, count);
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        if (i < here) total.combineWith(parts[i]);
    }
    total.pass([&](auto &...results) { finish(static_cast<Index>(outer), static_cast<Index>(column), results...); });
  });
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_REDUCE_CUDA_H_
