// The arithmetic of all_reduce and reduce_scatter over buffers that several ranks map.
#ifndef HYCRT_SRC_COMM_VECTOR_REDUCE_H_
#define HYCRT_SRC_COMM_VECTOR_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "hycrt/types.h"

namespace hycrt {

// For every element i of [begin, end): combines sources[0][i], sources[1][i], … in that order, each step rounded to
// the type, and stores the result at targets[…][i - targetShift]. A target may be one of the sources (same address):
// a block of elements is read completely before it is written. f32, f64, i32, i64; bf16 and f16 are combined in f32 and
// rounded once.
struct ReduceRange {
  DType dtype;
  ReduceOp op;
  int64_t begin;
  int64_t end;
  int64_t targetShift = 0;
};
void reduceRange(const ReduceRange& range, const std::vector<const std::byte*>& sources,
                 const std::vector<std::byte*>& targets);

// What a sum is while terms are still to come: f32 of 16-bit types, the type itself of others. A fold that is cut in
// two at a running sum gives the bits of one that is not.
constexpr DType runningType(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype; }

// The same for a part of the terms. `before`: the running sum of those in front, its first element that of `begin`;
// null: there are none, and then there is a source. `after`: where the running sum is left, which may be `before`;
// null: these were the last, and the rounded result goes to the targets.
void foldRange(const ReduceRange& range, const std::byte* before, const std::vector<const std::byte*>& sources,
               std::byte* after, const std::vector<std::byte*>& targets);

// Member i of n takes elements [sliceBegin(count, n, i), sliceBegin(count, n, i + 1)): whole cache lines of f32.
int64_t sliceBegin(int64_t count, int members, int index);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_VECTOR_REDUCE_H_
