// Runs of a shard's elements in the whole tensor, factored dimensions and padding taken care of.
#include "io/state_layout.h"

#include <algorithm>

namespace hycrt {
namespace {

// Which shard of the dimension this rank holds; of several axes the first listed is the major.
int64_t shardIndex(const StateDesc& state, int dim, const Mesh& mesh, const Coordinates& at) {
  int64_t index = 0;
  for (const Split& split : state.splits) {
    if (split.dim == dim) index = index * sizeOf(mesh, split.axis) + coordinateOf(mesh, at, split.axis);
  }
  return index;
}

}  // namespace

bool splitsOver(const StateDesc& state, Axis axis) {
  return std::any_of(state.splits.begin(), state.splits.end(),
                     [axis](const Split& split) { return split.axis == axis; }) ||
         (state.storage != FlatStorage::kWhole &&
          std::find(state.flat.begin(), state.flat.end(), axis) != state.flat.end());
}

ShardLayout::ShardLayout(const StateDesc& state, const Mesh& mesh, const Coordinates& at) {
  const int rank = state.global.size;
  int64_t localStride = 1, globalStride = 1;
  for (int dim = rank - 1; dim >= 0; --dim) {
    const int64_t begin = shardIndex(state, dim, mesh, at) * state.local[dim];
    extent_[dim] = std::clamp<int64_t>(state.global[dim] - begin, 0, state.local[dim]);
    localStride_[dim] = localStride;
    globalStride_[dim] = globalStride;
    offset_ += begin * globalStride;
    localStride *= state.local[dim];
    globalStride *= state.global[dim];
  }
  // A dimension joins the run as long as everything inside of it is whole on both sides.
  outerDims_ = rank;
  bool whole = true;
  while (outerDims_ > 0 && whole) {
    const int dim = --outerDims_;
    runLength_ *= extent_[dim];
    whole = extent_[dim] == state.global[dim] && extent_[dim] == state.local[dim];
  }
  for (int dim = 0; dim < outerDims_; ++dim) runCount_ *= extent_[dim];
  if (runLength_ == 0) runCount_ = 0;
  isWriter_ = true;
  for (int i = 0; i < mesh.axes.size; ++i) {
    const Axis axis{static_cast<uint8_t>(i)};
    isWriter_ = isWriter_ && (coordinateOf(mesh, at, axis) == 0 || splitsOver(state, axis));
  }
  if (state.storage == FlatStorage::kWhole) return;
  const int64_t coordinate = coordinateOf(mesh, at, state.flat), parts = sizeOf(mesh, state.flat);
  const int64_t elements = elementCount(state.local);
  const FlatShard shard = flatShard(coordinate, flatShardSize(elements, parts), elements);
  flatBegin_ = shard.begin;
  flatEnd_ = shard.begin + shard.count;
  if (state.storage == FlatStorage::kShard) storedFrom_ = shard.begin;
}

int64_t ShardLayout::firstRunAfter(const int64_t* stride, int64_t element, int64_t* index) const {
  // Runs ascend in the local tensor as in the whole one, so that their numbers can be halved.
  int64_t first = 0, last = runCount_;
  while (first < last) {
    const int64_t middle = first + (last - first) / 2;
    int64_t rest = middle, begin = 0;
    for (int dim = outerDims_ - 1; dim >= 0; --dim) {
      begin += rest % extent_[dim] * stride[dim];
      rest /= extent_[dim];
    }
    begin + runLength_ > element ? last = middle : first = middle + 1;
  }
  int64_t rest = first;
  for (int dim = outerDims_ - 1; dim >= 0; --dim) {
    index[dim] = rest % extent_[dim];
    rest /= extent_[dim];
  }
  return first;
}

}  // namespace hycrt
