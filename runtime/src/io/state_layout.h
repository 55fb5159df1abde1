// ShardLayout: where the elements of one rank's shard stand in the whole tensor. Everything that fills, reads or writes
// a state goes through here, so padding and factored dimensions are understood in one place.
//
// Worked example: global {4, 6}, dim 1 split over tp 4, local {4, 2} (8 columns, 2 of them padding). At tp 1 the runs
// are local 0 = global 2 (2 elements), local 2 = global 8 (2), local 4 = global 14 (2), local 6 = global 20 (2); at tp
// 3 there is none. Flat over dp 2 as well, the 8 local elements are one block: at dp 0 the runs are the same, at dp 1
// there is none.
#ifndef HYCRT_SRC_IO_STATE_LAYOUT_H_
#define HYCRT_SRC_IO_STATE_LAYOUT_H_

#include <algorithm>
#include <cstdint>

#include "hycrt/mesh.h"
#include "hycrt/program.h"

namespace hycrt {

// Consecutive elements that are consecutive in the whole tensor, too.
struct ElementRun {
  int64_t local;
  int64_t global;
  int64_t count;
};

// Whether ranks along this axis hold different parts of a state.
bool splitsOver(const StateDesc& state, Axis axis);

class ShardLayout {
 public:
  ShardLayout(const StateDesc& state, const Mesh& mesh, const Coordinates& at);

  // Whether this rank is the one of its stage's replicas that writes the shard: coordinate 0 on every axis that does
  // not split the state.
  bool isWriter() const { return isWriter_; }

  // Calls visit(const ElementRun&) -> bool for every run in ascending order, without padding, until one returns false.
  template <typename Visit>
  void forEachRun(Visit visit) const {
    forEachRunFrom(0, visit);
  }

  // Those that end after `element`, an element of the state's buffer.
  template <typename Visit>
  void forEachRunFrom(int64_t element, Visit visit) const {
    visitRuns(localStride_, element + storedFrom_, visit);
  }

  // Those that end after `element` of the whole tensor: they ascend there, too.
  template <typename Visit>
  void forEachRunFromGlobal(int64_t element, Visit visit) const {
    visitRuns(globalStride_, element - offset_, visit);
  }

 private:
  template <typename Visit>
  void visitRuns(const int64_t* stride, int64_t element, Visit visit) const {
    int64_t index[kMaxRank] = {};
    for (int64_t i = firstRunAfter(stride, element, index); i < runCount_; ++i) {
      int64_t local = 0, global = offset_;
      for (int dim = 0; dim < outerDims_; ++dim) {
        local += index[dim] * localStride_[dim];
        global += index[dim] * globalStride_[dim];
      }
      // Of a flat state only what lies in this rank's shard.
      const int64_t begin = std::max(local, flatBegin_), end = std::min(local + runLength_, flatEnd_);
      if (begin < end && !visit(ElementRun{begin - storedFrom_, global + (begin - local), end - begin})) return;
      for (int dim = outerDims_ - 1; dim >= 0 && ++index[dim] == extent_[dim]; --dim) index[dim] = 0;
    }
  }

  // The number of the first run that ends after `element` of the tensor that has these strides, and its index in the
  // outer dimensions.
  int64_t firstRunAfter(const int64_t* stride, int64_t element, int64_t* index) const;

  int outerDims_ = 0;              // dimensions [0, outerDims_) are iterated, the rest is one run
  int64_t extent_[kMaxRank] = {};  // real elements of the shard
  int64_t localStride_[kMaxRank] = {};
  int64_t globalStride_[kMaxRank] = {};
  int64_t offset_ = 0;  // global position of the shard's first element
  int64_t runLength_ = 1;
  int64_t runCount_ = 1;
  int64_t flatBegin_ = 0;  // of the flattened local tensor: what this rank holds, or what of it counts
  int64_t flatEnd_ = INT64_MAX;
  int64_t storedFrom_ = 0;  // the element of the local tensor that the buffer begins with
  bool isWriter_ = true;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_STATE_LAYOUT_H_
