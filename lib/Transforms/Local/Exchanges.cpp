// Builders of exchanges.
#include "Exchanges.h"

using namespace mlir;
using namespace hyc;

Value local::allReduce(OpBuilder &start, OpBuilder &wait, Location loc, dist::ReduceKind kind, Value value,
                       dist::GroupAttr group, const Reason &reason) {
  auto type = cast<RankedTensorType>(value.getType());
  auto pending =
      dist::AllReduceStartOp::create(start, loc, dist::PendingType::get(start.getContext(), type), kind, value, group,
                                     start.getStringAttr(reason.cause), start.getStringAttr(reason.why));
  return dist::WaitOp::create(wait, loc, type, pending);
}

Value local::allGather(OpBuilder &start, OpBuilder &wait, Location loc, Value shard, int64_t dim, int64_t whole,
                       dist::GroupAttr group, const Reason &reason) {
  auto shardType = cast<RankedTensorType>(shard.getType());
  SmallVector<int64_t> shape(shardType.getShape());
  shape[dim] = whole;
  auto type = RankedTensorType::get(shape, shardType.getElementType());
  auto pending = dist::AllGatherStartOp::create(start, loc, dist::PendingType::get(start.getContext(), type), shard,
                                                start.getI64IntegerAttr(dim), dist::AxisListAttr(), group,
                                                start.getStringAttr(reason.cause), start.getStringAttr(reason.why));
  return dist::WaitOp::create(wait, loc, type, pending);
}

Value local::reduceScatter(OpBuilder &start, OpBuilder &wait, Location loc, Value value, int64_t dim,
                           RankedTensorType shard, dist::GroupAttr group, const Reason &reason) {
  auto pending = dist::ReduceScatterStartOp::create(start, loc, dist::PendingType::get(start.getContext(), shard),
                                                    value, start.getI64IntegerAttr(dim), dist::AxisListAttr(), group,
                                                    start.getStringAttr(reason.cause), start.getStringAttr(reason.why));
  return dist::WaitOp::create(wait, loc, shard, pending);
}

Value local::allToAll(OpBuilder &start, OpBuilder &wait, Location loc, Value value, int64_t split, int64_t concat,
                      RankedTensorType result, dist::GroupAttr group, const Reason &reason) {
  auto pending = dist::AllToAllStartOp::create(start, loc, dist::PendingType::get(start.getContext(), result), value,
                                               start.getI64IntegerAttr(split), start.getI64IntegerAttr(concat), group,
                                               start.getStringAttr(reason.cause), start.getStringAttr(reason.why));
  return dist::WaitOp::create(wait, loc, result, pending);
}

Value local::reduceScatterFlat(OpBuilder &start, OpBuilder &wait, Location loc, Value value, RankedTensorType shard,
                               dist::AxisListAttr flat, dist::GroupAttr group, const Reason &reason) {
  auto pending = dist::ReduceScatterStartOp::create(start, loc, dist::PendingType::get(start.getContext(), shard),
                                                    value, IntegerAttr(), flat, group,
                                                    start.getStringAttr(reason.cause), start.getStringAttr(reason.why));
  return dist::WaitOp::create(wait, loc, shard, pending);
}

Value local::startAllGatherFlat(OpBuilder &start, Location loc, Value shard, RankedTensorType whole,
                                dist::AxisListAttr flat, const Reason &reason) {
  return dist::AllGatherStartOp::create(start, loc, dist::PendingType::get(start.getContext(), whole), shard,
                                        IntegerAttr(), flat, groupOf(start.getContext(), flat.getAxes()),
                                        start.getStringAttr(reason.cause), start.getStringAttr(reason.why));
}

RankedTensorType local::flatShardType(RankedTensorType whole, dist::AxisListAttr flat, dist::MeshOp mesh) {
  return RankedTensorType::get({dist::flatShardSize(whole.getNumElements(), mesh.getSize(flat))},
                               whole.getElementType());
}

dist::GroupAttr local::groupOf(MLIRContext *context, ArrayRef<StringAttr> axes, ArrayRef<int64_t> stages) {
  return dist::GroupAttr::get(context, dist::AxisListAttr::get(context, axes), stages);
}
