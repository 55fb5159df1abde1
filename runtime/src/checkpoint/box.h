// Box: a rectangle of a tensor, and what of a rank's shard makes how many of them.
//
// A shard is contiguous runs of the whole tensor (io/state_layout.h), in the shape that the model gives it: columns of
// rows that tp splits, of each part of a fused weight, and of a flat shard the end of one row, whole rows, and the
// beginning of another. Worked example: tensor {4, 6}, elements [4, 21): {0, 4} + {1, 2}, {1, 0} + {2, 6}, {3, 0} +
// {1, 3}.
#ifndef HYCRT_SRC_CHECKPOINT_BOX_H_
#define HYCRT_SRC_CHECKPOINT_BOX_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hycrt/types.h"
#include "io/state_layout.h"

namespace hycrt {

struct Box {
  Shape offset;
  Shape size;
};

// The fewest that joining neighbours along one dimension after the other gives, in the order of their first elements.
std::vector<Box> boxesOf(const ShardLayout& layout, const Shape& shape);

// Element `element` of the box, row-major, in the whole tensor; and how many follow each other in both.
struct BoxRow {
  int64_t element;
  int64_t global;
  int64_t count;
};
class BoxRows {
 public:
  BoxRows(const Box& box, const Shape& shape);

  // Elements [element, …) as far as they are consecutive in the tensor too; `element` is one of the box.
  BoxRow rowFrom(int64_t element) const;
  int64_t elements() const { return elements_; }

 private:
  Box box_;
  int outerDims_ = 0;  // the others are whole, but for the first of them, and one run
  int64_t stride_[kMaxRank] = {};
  int64_t runLength_ = 1;
  int64_t elements_ = 1;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_BOX_H_
