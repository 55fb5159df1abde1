// Reductions: in which order elements are combined, the same at any number of threads and any vector width.
//
// A reduction goes over `steps` × `inner` elements for each of `outer` indices, and has one of two trees:
//
//   rows      inner is combined too, outer results. Each step is added to 32 lanes, lane l taking its elements l, l +
//   32,
//             …; then lanes 16, 8, 4, 2 and 1 apart are combined. Long rows are cut in blocks of about 16,384 elements
//             (RowBlocks), each with lanes of its own, whose results are combined in order.
//   columns   inner stays, outer × inner results. Each column is combined step by step in blocks of 128 steps, whose
//             results are combined in order.
//
// Every combination begins at the identity and is done in the elements' own type. Generated kernels are written with
// loops.h; reference.h says the same in plain loops.
#ifndef HYC_KERNELS_REDUCE_OP_H_
#define HYC_KERNELS_REDUCE_OP_H_

#include <cstdint>
#include <limits>

#include "kernels/host_device.h"

namespace hyc::kernels {

constexpr int64_t kReduceLanes = 32;
constexpr int64_t kRowBlock = 16384;   // elements
constexpr int64_t kColumnBlock = 128;  // steps

template <typename T>
struct Sum {
  using Value = T;
  static constexpr T identity() { return T(0); }
  static constexpr T combine(T x, T y) { return x + y; }
};
// NaN if either is.
template <typename T>
struct Max {
  using Value = T;
  static constexpr T identity() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  static constexpr T combine(T x, T y) { return x > y || x != x ? x : y; }
};
template <typename T>
struct Min {
  using Value = T;
  static constexpr T identity() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  static constexpr T combine(T x, T y) { return x < y || x != x ? x : y; }
};

template <typename T>
struct Prod {
  using Value = T;
  static constexpr T identity() { return T(1); }
  static constexpr T combine(T x, T y) { return x * y; }
};

// How a row of steps × width elements is cut: short steps go into one block together, a long one has several.
struct RowBlocks {
  struct Range {
    int64_t firstStep, endStep, first, end;  // first and end count elements of each step
  };

  HYC_HOST_DEVICE RowBlocks(int64_t steps, int64_t width) : steps(steps), width(width) {
    if (width == 0) return;
    stepsPerBlock = width < kRowBlock ? kRowBlock / width : 1;
    blocksPerStep = (width + kRowBlock - 1) / kRowBlock;
    count = (steps + stepsPerBlock - 1) / stepsPerBlock * blocksPerStep;
  }
  HYC_HOST_DEVICE Range range(int64_t block) const {
    const int64_t step = block / blocksPerStep * stepsPerBlock, first = block % blocksPerStep * kRowBlock;
    return {step, step + stepsPerBlock < steps ? step + stepsPerBlock : steps, first,
            first + kRowBlock < width ? first + kRowBlock : width};
  }

  int64_t steps, width, stepsPerBlock = 1, blocksPerStep = 1, count = 0;
};

HYC_HOST_DEVICE constexpr int64_t columnBlockCount(int64_t steps) { return (steps + kColumnBlock - 1) / kColumnBlock; }

// On GPUs blocks of one result are done side by side, and their results wait in a workspace for their order: one array
// a combination, of so many entries. 0 where every result has one block.
inline int64_t reducePartialCount(bool isRows, int64_t outer, int64_t steps, int64_t inner) {
  const int64_t blocks = isRows ? RowBlocks(steps, inner).count : columnBlockCount(steps);
  return blocks > 1 ? outer * blocks * (isRows ? 1 : inner) : 0;
}
// Bytes of such an array, which the next one follows.
constexpr int64_t kPartialAlignment = 16;
HYC_HOST_DEVICE constexpr int64_t partialBytes(int64_t count, int64_t bytesPerEntry) {
  return (count * bytesPerEntry + kPartialAlignment - 1) / kPartialAlignment * kPartialAlignment;
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_REDUCE_OP_H_
