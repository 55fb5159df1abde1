// A broadcast that adds one dimension, and a reshape that merges it with the one before.
#include "RepeatedHeads.h"

using namespace mlir;
using namespace hyc;

std::optional<int64_t> hyc::findRepeatedDim(ReshapeOp merge) {
  auto broadcast = merge.getOperand().getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return std::nullopt;
  ArrayRef<int64_t> wide = cast<RankedTensorType>(broadcast.getType()).getShape(),
                    narrow = cast<RankedTensorType>(broadcast.getOperand().getType()).getShape(),
                    merged = cast<RankedTensorType>(merge.getType()).getShape();
  if (wide.size() != narrow.size() + 1 || merged.size() != narrow.size())
    return std::nullopt;
  size_t added = 0;
  while (added < narrow.size() && broadcast.getDims()[added] == static_cast<int64_t>(added))
    ++added;
  if (added == 0 || wide[added] == 1)
    return std::nullopt;
  for (size_t dim = 0; dim < merged.size(); ++dim)
    if (merged[dim] != (dim + 1 == added ? narrow[dim] * wide[added] : narrow[dim]))
      return std::nullopt;
  return static_cast<int64_t>(added) - 1;
}
