// Exchanges: what holds of each kind, and the verifiers of the ops that start one.
#include "dialects/Dist/ExchangeKinds.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hyc::dist;

#include "dialects/Dist/ExchangeInterface.cpp.inc"

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

const ExchangeFacts &hyc::dist::factsOf(ExchangeKind kind) {
  static constexpr ExchangeFacts kAllReduce{.combines = true},
      kReduceScatter{.combines = true, .takesParts = true, .hasFlatForm = true},
      kAllGather{.givesParts = true, .hasFlatForm = true},
      kAllToAll{.takesParts = true, .givesParts = true, .isApart = true}, kShift{.isApart = true};
  switch (kind) {
  case ExchangeKind::all_reduce:
    return kAllReduce;
  case ExchangeKind::reduce_scatter:
    return kReduceScatter;
  case ExchangeKind::all_gather:
    return kAllGather;
  case ExchangeKind::all_to_all:
    return kAllToAll;
  case ExchangeKind::shift:
    return kShift;
  }
  llvm_unreachable("an enum has no further values");
}

double hyc::dist::sentBytes(ExchangeKind kind, double bytes, int64_t members) {
  double others = static_cast<double>(members - 1) / static_cast<double>(members);
  switch (kind) {
  case ExchangeKind::all_reduce:
    return bytes * others * 2;
  case ExchangeKind::reduce_scatter:
  case ExchangeKind::all_gather:
  case ExchangeKind::all_to_all:
    return bytes * others;
  case ExchangeKind::shift:
    return members > 1 ? bytes : 0;
  }
  llvm_unreachable("an enum has no further values");
}

std::string hyc::dist::listExchangeKinds() {
  std::string text;
  for (uint32_t i = 0; std::optional<ExchangeKind> kind = symbolizeExchangeKind(i); ++i) {
    bool isLast = !symbolizeExchangeKind(i + 1);
    text += (i == 0 ? "" : isLast ? " or " : ", ") + stringifyExchangeKind(*kind).str();
  }
  return text;
}

ExchangeKind AllReduceStartOp::getExchange() { return ExchangeKind::all_reduce; }
ExchangeKind ReduceScatterStartOp::getExchange() { return ExchangeKind::reduce_scatter; }
ExchangeKind AllGatherStartOp::getExchange() { return ExchangeKind::all_gather; }
ExchangeKind AllToAllStartOp::getExchange() { return ExchangeKind::all_to_all; }
ExchangeKind ShiftStartOp::getExchange() { return ExchangeKind::shift; }

std::optional<ReduceKind> AllReduceStartOp::getReduction() { return getKind(); }
std::optional<ReduceKind> ReduceScatterStartOp::getReduction() { return ReduceKind::sum; }
std::optional<ReduceKind> AllGatherStartOp::getReduction() { return std::nullopt; }
std::optional<ReduceKind> AllToAllStartOp::getReduction() { return std::nullopt; }
std::optional<ReduceKind> ShiftStartOp::getReduction() { return std::nullopt; }

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static MeshOp meshOf(Operation *op) {
  auto module = op->getParentOfType<ModuleOp>();
  return module ? MeshOp::find(module) : MeshOp();
}

LogicalResult AllReduceStartOp::verify() {
  if (getPending().getType().getTensor() == getOperand().getType())
    return success();
  return emitOpError("combines ") << getOperand().getType() << " into " << getPending().getType();
}

/// `whole` and `shard` agree but for `dim`, where shards of equal size cover the whole.
static LogicalResult verifyShard(Operation *op, RankedTensorType whole, RankedTensorType shard, int64_t dim) {
  bool agree = dim >= 0 && dim < whole.getRank() && whole.getRank() == shard.getRank() &&
               whole.getElementType() == shard.getElementType() && shard.getDimSize(dim) <= whole.getDimSize(dim);
  for (int64_t d = 0; agree && d < whole.getRank(); ++d)
    agree = d == dim || whole.getDimSize(d) == shard.getDimSize(d);
  if (agree)
    return success();
  return op->emitOpError("has whole ") << whole << " and shard " << shard << " along dim " << dim;
}

/// `shard` is one-dimensional and of the size that flat shards of `whole` have on the module's mesh.
static LogicalResult verifyFlatShard(Operation *op, RankedTensorType whole, RankedTensorType shard, AxisListAttr axes) {
  bool agree = shard.getRank() == 1 && whole.getElementType() == shard.getElementType() && !axes.empty();
  MeshOp mesh = meshOf(op);
  if (agree && mesh)
    agree = shard.getDimSize(0) == flatShardSize(whole.getNumElements(), mesh.getSize(axes));
  if (agree)
    return success();
  return op->emitOpError("[exchange.flat] has whole ") << whole << " and shard " << shard << " flat over " << axes;
}

/// Of the two forms, by dimension and flat.
static LogicalResult verifyForm(Operation *op, RankedTensorType whole, RankedTensorType shard,
                                std::optional<int64_t> dim, std::optional<AxisListAttr> flat) {
  if (dim.has_value() == flat.has_value())
    return op->emitOpError("[exchange.form] has ")
           << (dim ? "both dim and flat" : "neither dim nor flat") << ", expected one of them";
  return dim ? verifyShard(op, whole, shard, *dim) : verifyFlatShard(op, whole, shard, *flat);
}

LogicalResult AllGatherStartOp::verify() {
  return verifyForm(*this, getResultType(), getOperandType(), getDim(), getFlat());
}
LogicalResult ReduceScatterStartOp::verify() {
  return verifyForm(*this, getOperandType(), getResultType(), getDim(), getFlat());
}

LogicalResult SliceOp::verify() {
  auto whole = cast<RankedTensorType>(getOperand().getType()), shard = cast<RankedTensorType>(getResult().getType());
  return getDim() ? verifyShard(*this, whole, shard, *getDim()) : verifyFlatShard(*this, whole, shard, getAxes());
}

LogicalResult AllToAllStartOp::verify() {
  RankedTensorType from = getOperandType(), to = getResultType();
  int64_t split = static_cast<int64_t>(getSplit()), concat = static_cast<int64_t>(getConcat()), rank = from.getRank();
  auto isDim = [&](int64_t dim) { return dim >= 0 && dim < rank; };
  if (!isDim(split) || !isDim(concat) || split == concat)
    return emitOpError("[exchange.all_to_all] splits dim ")
           << split << " and joins dim " << concat << ", expected two dimensions of " << from;
  bool agree = to.getRank() == rank && from.getElementType() == to.getElementType();
  for (int64_t dim = 0; agree && dim < rank; ++dim)
    agree = dim == split || dim == concat || from.getDimSize(dim) == to.getDimSize(dim);
  if (MeshOp mesh = meshOf(*this); agree && mesh) {
    int64_t members = mesh.countMembers(getGroup());
    agree = to.getDimSize(split) == shardSize(from.getDimSize(split), members) &&
            from.getDimSize(concat) == shardSize(to.getDimSize(concat), members);
  }
  if (agree)
    return success();
  return emitOpError("[exchange.all_to_all] turns ")
         << from << " into " << to << ", which are no shards of each other along dims " << split << " and " << concat
         << " over " << getGroup();
}

LogicalResult ShiftStartOp::verify() {
  if (getOperandType() != getResultType())
    return emitOpError("[exchange.shift] turns ") << getOperandType() << " into " << getResultType();
  int64_t distance = static_cast<int64_t>(getDistance());
  MeshOp mesh = meshOf(*this);
  if (distance >= 1 && (!mesh || distance < mesh.countMembers(getGroup())))
    return success();
  auto error = emitOpError("[exchange.shift] has distance ") << distance << ", expected at least 1";
  return mesh ? error << " and less than the " << mesh.countMembers(getGroup()) << " members of the group" : error;
}

LogicalResult WaitOp::verify() {
  if (getPending().getType().getTensor() == getResult().getType())
    return success();
  return emitOpError("awaits ") << getPending().getType() << " as " << getResult().getType();
}

void AllGatherStartOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (getFlat())
    effects.emplace_back(MemoryEffects::Allocate::get(), cast<OpResult>(getPending()));
}
