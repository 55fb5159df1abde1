// The loops of generated reductions. The caller gives what is done with one element and with one finished result:
//
//   // out[i] = Σ_j x[i, j]²
//   reduceRows<Sum<float>>({rows, 1, cols},
//       [=](int64_t i, int64_t, int64_t j, float &sum) { sum = sum + x[i * cols + j] * x[i * cols + j]; },
//       [=](int64_t i, float sum) { out[i] = sum; });
//
// `element(outer, step, inner, accumulators…)` is called once for each index, in any order, on any thread; it combines
// the element into the accumulators as their Combine does and may write elements of other results. `finish` is called
// once a result, after all its elements. The surprise: both are inlined into loops that promise the compiler
// independent iterations, so `element` must not read what another index writes.
#ifndef HYC_KERNELS_REDUCE_LOOPS_H_
#define HYC_KERNELS_REDUCE_LOOPS_H_

#include <tuple>

#include "kernels/parallel/team.h"
#include "kernels/reduce/op.h"

namespace hyc::kernels {

struct ReduceSpace {
  int64_t outer = 1, steps = 1, inner = 1;
};

namespace reduce_detail {

constexpr int64_t kParallelElements = 32768;  // fewer are not worth waking threads for
constexpr int64_t kFewJobs = 16;              // with fewer jobs, blocks of one result are jobs too
constexpr int64_t kBlockBatch = 256;          // blocks of one row under way at once
// Columns of one job: so many that memory is read in long runs, while accumulators stay in the first cache.
constexpr int64_t kChunk = 2048, kNarrowChunk = 64;
constexpr int64_t kPartialElements = kFewJobs * kChunk;  // results of blocks of columns under way at once

inline int64_t jobCount(int64_t size, int64_t chunk) { return (size + chunk - 1) / chunk; }
inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// One accumulator for each combination, the first of several.
template <typename... Combine>
using Pointers = std::tuple<typename Combine::Value *...>;

template <typename T, int64_t n>
struct alignas(64) Array {
  T at[n];
};
// `n` accumulators for each combination, which hold nothing before reset.
template <int64_t n, typename... Combine>
struct Accumulators {
  Pointers<Combine...> from(int64_t first) {
    return std::apply([&](auto &...array) { return Pointers<Combine...>(array.at + first...); }, arrays);
  }
  std::tuple<Array<typename Combine::Value, n>...> arrays;
};

template <typename Combine>
void fill(typename Combine::Value *at, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) at[i] = Combine::identity();
}
// Sets `count` accumulators of each combination to the identity.
template <typename... Combine>
void reset(Pointers<Combine...> accumulators, int64_t count) {
  std::apply([&](auto *...at) { (fill<Combine>(at, count), ...); }, accumulators);
}

template <typename Combine>
void combineInto(typename Combine::Value *to, const typename Combine::Value *from, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = Combine::combine(to[i], from[i]);
}
template <typename... Combine>
void combineAll(Pointers<Combine...> to, Pointers<Combine...> from, int64_t count) {
  std::apply(
      [&](auto *...target) {
        std::apply([&](auto *...source) { (combineInto<Combine>(target, source, count), ...); }, from);
      },
      to);
}

// One block of a row, into one accumulator.
template <typename... Combine, typename Element>
__attribute__((flatten)) void rowBlock(const RowBlocks::Range &range, int64_t outer, const Element &shared,
                                       Pointers<Combine...> total) {
  const Element element = shared;  // which nothing else can see
  Accumulators<kReduceLanes, Combine...> lanes;
  reset<Combine...>(lanes.from(0), kReduceLanes);
  std::apply(
      [&](auto &...lane) {
        for (int64_t step = range.firstStep; step < range.endStep; ++step) {
          int64_t i = range.first;
          for (; i + kReduceLanes <= range.end; i += kReduceLanes) {
#pragma omp simd
            for (int64_t l = 0; l < kReduceLanes; ++l) element(outer, step, i + l, lane.at[l]...);
          }
#pragma omp simd
          for (int64_t l = 0; l < range.end - i; ++l) element(outer, step, i + l, lane.at[l]...);
        }
      },
      lanes.arrays);
  for (int64_t apart = kReduceLanes / 2; apart > 0; apart /= 2)
    combineAll<Combine...>(lanes.from(0), lanes.from(apart), apart);
  combineAll<Combine...>(total, lanes.from(0), 1);
}

// Columns first … first + count − 1 of one block of steps, into as many accumulators.
template <typename... Combine, typename Element>
__attribute__((flatten)) void columnBlock(const ReduceSpace &space, int64_t outer, int64_t block, int64_t first,
                                          int64_t count, const Element &shared, Pointers<Combine...> accumulators) {
  const Element element = shared;
  const int64_t firstStep = block * kColumnBlock, endStep = smaller(firstStep + kColumnBlock, space.steps);
  reset<Combine...>(accumulators, count);
  std::apply(
      [&](auto *...accumulator) {
        for (int64_t step = firstStep; step < endStep; ++step) {
#pragma omp simd
          for (int64_t c = 0; c < count; ++c) element(outer, step, first + c, accumulator[c]...);
        }
      },
      accumulators);
}

template <typename Finish, typename... Totals>
void finishColumns(int64_t outer, int64_t first, int64_t count, const std::tuple<Totals *...> &totals,
                   const Finish &finish) {
  std::apply(
      [&](auto *...total) {
#pragma omp simd
        for (int64_t c = 0; c < count; ++c) finish(outer, first + c, total[c]...);
      },
      totals);
}

// One job a chunk of columns, which walks through all steps.
template <typename... Combine, typename Element, typename Finish>
void reduceChunks(const ReduceSpace &space, int64_t chunk, Element element, Finish finish) {
  const int64_t chunks = jobCount(space.inner, chunk), blocks = jobCount(space.steps, kColumnBlock);
  runTeam(space.outer * space.steps * space.inner >= kParallelElements, [&] {
#pragma omp for schedule(static) firstprivate(element, finish) nowait
    for (int64_t job = 0; job < space.outer * chunks; ++job) {
      const int64_t outer = job / chunks, first = job % chunks * chunk, count = smaller(chunk, space.inner - first);
      Accumulators<kChunk, Combine...> total, partial;
      reset<Combine...>(total.from(0), count);
      for (int64_t block = 0; block < blocks; ++block) {
        columnBlock<Combine...>(space, outer, block, first, count, element, partial.from(0));
        combineAll<Combine...>(total.from(0), partial.from(0), count);
      }
      finishColumns(outer, first, count, total.from(0), finish);
    }
  });
}

// One job a block of steps and a chunk of columns, where there are too few chunks to share out.
template <typename... Combine, typename Element, typename Finish>
void reduceBlocks(const ReduceSpace &space, int64_t outer, Element element, Finish finish) {
  const int64_t chunks = jobCount(space.inner, kChunk), blocks = jobCount(space.steps, kColumnBlock);
  const int64_t batchSize = smaller(kPartialElements / space.inner, kFewJobs);
  Accumulators<kPartialElements, Combine...> total, partial;
  runTeam(space.steps * space.inner >= kParallelElements, [&] {
    for (int64_t batch = 0; batch < blocks; batch += batchSize) {
      const int64_t count = smaller(batchSize, blocks - batch);
#pragma omp for schedule(static) firstprivate(element, finish)
      for (int64_t job = 0; job < count * chunks; ++job) {
        const int64_t row = job / chunks, first = job % chunks * kChunk;
        columnBlock<Combine...>(space, outer, batch + row, first, smaller(kChunk, space.inner - first), element,
                                partial.from(row * space.inner + first));
      }
#pragma omp for schedule(static) firstprivate(element, finish)
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const int64_t first = chunk * kChunk, columns = smaller(kChunk, space.inner - first);
        if (batch == 0) reset<Combine...>(total.from(first), columns);
        for (int64_t row = 0; row < count; ++row)
          combineAll<Combine...>(total.from(first), partial.from(row * space.inner + first), columns);
        if (batch + count == blocks) finishColumns(outer, first, columns, total.from(first), finish);
      }
    }
  });
}

}  // namespace reduce_detail

// Combines steps × inner elements: finish(outer, totals…).
template <typename... Combine, typename Element, typename Finish>
void reduceRows(const ReduceSpace &space, Element element, Finish finish) {
  using namespace reduce_detail;
  const RowBlocks blocks(space.steps, space.inner);
  const bool isParallel = space.outer * space.steps * space.inner >= kParallelElements;
  if (blocks.count <= 1 || space.outer >= kFewJobs) {
    runTeam(isParallel, [&] {
#pragma omp for schedule(static) firstprivate(element, finish) nowait
      for (int64_t outer = 0; outer < space.outer; ++outer) {
        Accumulators<1, Combine...> total;
        reset<Combine...>(total.from(0), 1);
        for (int64_t b = 0; b < blocks.count; ++b) rowBlock<Combine...>(blocks.range(b), outer, element, total.from(0));
        std::apply([&](auto *...one) { finish(outer, *one...); }, total.from(0));
      }
    });
    return;
  }
  for (int64_t outer = 0; outer < space.outer; ++outer) {
    Accumulators<1, Combine...> total;
    reset<Combine...>(total.from(0), 1);
    for (int64_t batch = 0; batch < blocks.count; batch += kBlockBatch) {
      const int64_t count = smaller(kBlockBatch, blocks.count - batch);
      Accumulators<kBlockBatch, Combine...> partial;
      reset<Combine...>(partial.from(0), count);
      runTeam(isParallel, [&] {
#pragma omp for schedule(static) firstprivate(element) nowait
        for (int64_t b = 0; b < count; ++b)
          rowBlock<Combine...>(blocks.range(batch + b), outer, element, partial.from(b));
      });
      for (int64_t b = 0; b < count; ++b) combineAll<Combine...>(total.from(0), partial.from(b), 1);
    }
    std::apply([&](auto *...one) { finish(outer, *one...); }, total.from(0));
  }
}

// Combines `steps` elements of each column: finish(outer, inner, totals…).
template <typename... Combine, typename Element, typename Finish>
void reduceColumns(const ReduceSpace &space, Element element, Finish finish) {
  using namespace reduce_detail;
  if (space.outer * jobCount(space.inner, kChunk) >= kFewJobs)
    return reduceChunks<Combine...>(space, kChunk, element, finish);
  if (space.steps <= kColumnBlock) {
    // One block: narrower chunks make more jobs.
    const int64_t columns = space.outer * space.inner / kFewJobs / kNarrowChunk * kNarrowChunk;
    return reduceChunks<Combine...>(space, smaller(kChunk, columns > 0 ? columns : kNarrowChunk), element, finish);
  }
  for (int64_t outer = 0; outer < space.outer; ++outer) reduceBlocks<Combine...>(space, outer, element, finish);
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_REDUCE_LOOPS_H_
