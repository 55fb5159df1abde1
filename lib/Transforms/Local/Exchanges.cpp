// Builders of exchanges.
#include "Exchanges.h"

using namespace mlir;
using namespace hyc;

Value local::allReduce(const ExchangePlace &at, dist::ReduceKind kind, Value value, dist::GroupAttr group,
                       const Reason &reason) {
  auto type = cast<RankedTensorType>(value.getType());
  auto pending =
      dist::AllReduceStartOp::create(at.start, at.loc, dist::PendingType::get(at.start.getContext(), type), kind, value,
                                     group, at.start.getStringAttr(reason.cause), at.start.getStringAttr(reason.why));
  return dist::WaitOp::create(at.wait, at.loc, type, pending);
}

Value local::allGather(const ExchangePlace &at, Value shard, int64_t dim, int64_t whole, dist::GroupAttr group,
                       const Reason &reason) {
  auto shardType = cast<RankedTensorType>(shard.getType());
  SmallVector<int64_t> shape(shardType.getShape());
  shape[dim] = whole;
  auto type = RankedTensorType::get(shape, shardType.getElementType());
  auto pending = dist::AllGatherStartOp::create(
      at.start, at.loc, dist::PendingType::get(at.start.getContext(), type), shard, at.start.getI64IntegerAttr(dim),
      dist::AxisListAttr(), group, at.start.getStringAttr(reason.cause), at.start.getStringAttr(reason.why));
  return dist::WaitOp::create(at.wait, at.loc, type, pending);
}

Value local::reduceScatter(const ExchangePlace &at, Value value, int64_t dim, RankedTensorType shard,
                           dist::GroupAttr group, const Reason &reason) {
  auto pending = dist::ReduceScatterStartOp::create(
      at.start, at.loc, dist::PendingType::get(at.start.getContext(), shard), value, at.start.getI64IntegerAttr(dim),
      dist::AxisListAttr(), group, at.start.getStringAttr(reason.cause), at.start.getStringAttr(reason.why));
  return dist::WaitOp::create(at.wait, at.loc, shard, pending);
}

Value local::allToAll(const ExchangePlace &at, Value value, SplitMove move, RankedTensorType result,
                      dist::GroupAttr group, const Reason &reason) {
  auto pending =
      dist::AllToAllStartOp::create(at.start, at.loc, dist::PendingType::get(at.start.getContext(), result), value,
                                    at.start.getI64IntegerAttr(move.to), at.start.getI64IntegerAttr(move.from), group,
                                    at.start.getStringAttr(reason.cause), at.start.getStringAttr(reason.why));
  return dist::WaitOp::create(at.wait, at.loc, result, pending);
}

Value local::reduceScatterFlat(const ExchangePlace &at, Value value, RankedTensorType shard, dist::AxisListAttr flat,
                               dist::GroupAttr group, const Reason &reason) {
  auto pending = dist::ReduceScatterStartOp::create(
      at.start, at.loc, dist::PendingType::get(at.start.getContext(), shard), value, IntegerAttr(), flat, group,
      at.start.getStringAttr(reason.cause), at.start.getStringAttr(reason.why));
  return dist::WaitOp::create(at.wait, at.loc, shard, pending);
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
