// A sharding without a record stands for a whole value, so that single-device programs can be costed too.
#include "hyc/Analysis/RankCost.h"

#include "hyc/Analysis/OpSharding.h"

using namespace mlir;
using namespace hyc;

int64_t hyc::bytesPerRank(Value value, dist::MeshOp mesh) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (dist::ShardingAttr sharding = recordedSharding(value))
    shape = dist::localShape(shape, sharding, mesh);
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  return elements * static_cast<int64_t>(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
}

int64_t hyc::flopsPerRank(Operation *op, dist::MeshOp mesh) {
  auto cost = dyn_cast<CostOpInterface>(op);
  if (!cost)
    return 0;
  int64_t ranks = 1;
  if (auto split = op->getAttrOfType<ArrayAttr>(dist::kSplit))
    for (auto axes : split.getAsRange<dist::AxisListAttr>())
      ranks *= mesh.getSize(axes);
  return llvm::divideCeil(cost.getFlops(), ranks);
}

int64_t hyc::exchangedBytesPerRank(Operation *op, dist::MeshOp mesh) {
  int64_t bytes = 0;
  for (Value result : op->getResults())
    if (dist::ShardingAttr sharding = recordedSharding(result);
        sharding && !(sharding.getPartial().empty() && sharding.getPartialMax().empty()))
      bytes += bytesPerRank(result, mesh);
  return bytes;
}
