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

template <typename T, int64_t n>
struct alignas(64) Array {
  T at[n];
};
// `n` accumulators for each of several combinations.
template <int64_t n, typename... Combine>
struct Accumulators {
  // Sets count of them from `first` on to the identity; before that they hold nothing.
  void reset(int64_t first, int64_t count) {
    std::apply([&](auto &...array) { (fill<Combine>(array.at + first, count), ...); }, arrays);
  }
  template <typename One>
  static void fill(typename One::Value *at, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) at[i] = One::identity();
  }
  std::tuple<Array<typename Combine::Value, n>...> arrays;
};

template <typename Combine>
void combineInto(typename Combine::Value *to, const typename Combine::Value *from, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] = Combine::combine(to[i], from[i]);
}
// to[t + i] = combine(to[t + i], from[f + i]) in every array.
template <typename... Combine, int64_t n, int64_t m>
void combineArrays(Accumulators<n, Combine...> &to, int64_t t, const Accumulators<m, Combine...> &from, int64_t f,
                   int64_t count) {
  std::apply(
      [&](auto &...target) {
        std::apply([&](const auto &...source) { (combineInto<Combine>(target.at + t, source.at + f, count), ...); },
                   from.arrays);
      },
      to.arrays);
}

// One block of a row, into accumulators 0.
template <typename... Combine, typename Element>
__attribute__((flatten)) void rowBlock(const RowBlocks::Range &range, int64_t outer, const Element &element,
                                       Accumulators<kReduceLanes, Combine...> &lanes) {
  lanes.reset(0, kReduceLanes);
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
  for (int64_t apart = kReduceLanes / 2; apart > 0; apart /= 2) combineArrays(lanes, 0, lanes, apart, apart);
}

// Columns first … first + count − 1 of one block of steps, into accumulators offset … offset + count − 1.
template <typename... Combine, int64_t n, typename Element>
__attribute__((flatten)) void columnBlock(const ReduceSpace &space, int64_t outer, int64_t block, int64_t first,
                                          int64_t count, const Element &element,
                                          Accumulators<n, Combine...> &accumulators, int64_t offset) {
  accumulators.reset(offset, count);
  const int64_t firstStep = block * kColumnBlock, endStep = smaller(firstStep + kColumnBlock, space.steps);
  std::apply(
      [&](auto &...accumulator) {
        for (int64_t step = firstStep; step < endStep; ++step) {
#pragma omp simd
          for (int64_t c = 0; c < count; ++c) element(outer, step, first + c, accumulator.at[offset + c]...);
        }
      },
      accumulators.arrays);
}

template <typename Finish, typename... Combine, int64_t n>
void finishColumns(int64_t outer, int64_t first, int64_t count, const Accumulators<n, Combine...> &totals,
                   int64_t offset, const Finish &finish) {
  std::apply(
      [&](const auto &...total) {
#pragma omp simd
        for (int64_t c = 0; c < count; ++c) finish(outer, first + c, total.at[offset + c]...);
      },
      totals.arrays);
}

// One job a chunk of columns, which walks through all steps.
template <typename... Combine, typename Element, typename Finish>
void reduceChunks(const ReduceSpace &space, int64_t chunk, Element element, Finish finish) {
  const int64_t chunks = jobCount(space.inner, chunk), blocks = jobCount(space.steps, kColumnBlock);
#pragma omp parallel for schedule(static) \
    firstprivate(element, finish) if (space.outer * space.steps * space.inner >= kParallelElements)
  for (int64_t job = 0; job < space.outer * chunks; ++job) {
    const int64_t outer = job / chunks, first = job % chunks * chunk, count = smaller(chunk, space.inner - first);
    Accumulators<kChunk, Combine...> total, block;
    total.reset(0, count);
    for (int64_t b = 0; b < blocks; ++b) {
      columnBlock(space, outer, b, first, count, element, block, 0);
      combineArrays(total, 0, block, 0, count);
    }
    finishColumns(outer, first, count, total, 0, finish);
  }
}

// One job a block of steps and a chunk of columns, where there are too few chunks to share out.
template <typename... Combine, typename Element, typename Finish>
void reduceBlocks(const ReduceSpace &space, int64_t outer, Element element, Finish finish) {
  const int64_t chunks = jobCount(space.inner, kChunk), blocks = jobCount(space.steps, kColumnBlock);
  const int64_t batchSize = smaller(kPartialElements / space.inner, kFewJobs);
  Accumulators<kPartialElements, Combine...> total, partial;
#pragma omp parallel firstprivate(element, finish) if (space.steps * space.inner >= kParallelElements)
  for (int64_t batch = 0; batch < blocks; batch += batchSize) {
    const int64_t count = smaller(batchSize, blocks - batch);
#pragma omp for schedule(static)
    for (int64_t job = 0; job < count * chunks; ++job) {
      const int64_t row = job / chunks, first = job % chunks * kChunk;
      columnBlock(space, outer, batch + row, first, smaller(kChunk, space.inner - first), element, partial,
                  row * space.inner + first);
    }
#pragma omp for schedule(static)
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t first = chunk * kChunk, columns = smaller(kChunk, space.inner - first);
      if (batch == 0) total.reset(first, columns);
      for (int64_t row = 0; row < count; ++row)
        combineArrays(total, first, partial, row * space.inner + first, columns);
      if (batch + count == blocks) finishColumns(outer, first, columns, total, first, finish);
    }
  }
}

}  // namespace reduce_detail

// Combines steps × inner elements: finish(outer, totals…).
template <typename... Combine, typename Element, typename Finish>
void reduceRows(const ReduceSpace &space, Element element, Finish finish) {
  using namespace reduce_detail;
  const RowBlocks blocks(space.steps, space.inner);
  const bool isParallel = space.outer * space.steps * space.inner >= kParallelElements;
  const auto finishRow = [](int64_t outer, const auto &totals, const auto &finish) {
    std::apply([&](const auto &...total) { finish(outer, total.at[0]...); }, totals.arrays);
  };
  if (blocks.count <= 1 || space.outer >= kFewJobs) {
#pragma omp parallel for schedule(static) firstprivate(element, finish) if (isParallel)
    for (int64_t outer = 0; outer < space.outer; ++outer) {
      Accumulators<1, Combine...> total;
      total.reset(0, 1);
      for (int64_t b = 0; b < blocks.count; ++b) {
        Accumulators<kReduceLanes, Combine...> lanes;
        rowBlock(blocks.range(b), outer, element, lanes);
        combineArrays(total, 0, lanes, 0, 1);
      }
      finishRow(outer, total, finish);
    }
    return;
  }
  for (int64_t outer = 0; outer < space.outer; ++outer) {
    Accumulators<1, Combine...> total;
    total.reset(0, 1);
    for (int64_t batch = 0; batch < blocks.count; batch += kBlockBatch) {
      const int64_t count = smaller(kBlockBatch, blocks.count - batch);
      Accumulators<kBlockBatch, Combine...> results;
#pragma omp parallel for schedule(static) firstprivate(element) if (isParallel)
      for (int64_t b = 0; b < count; ++b) {
        Accumulators<kReduceLanes, Combine...> lanes;
        rowBlock(blocks.range(batch + b), outer, element, lanes);
        results.reset(b, 1);
        combineArrays(results, b, lanes, 0, 1);
      }
      for (int64_t b = 0; b < count; ++b) combineArrays(total, 0, results, b, 1);
    }
    finishRow(outer, total, finish);
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
