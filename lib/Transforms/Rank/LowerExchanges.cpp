// Collectives, and what depends on a rank's coordinates.
//
// The runtime's exchanges see flat ranges. Joining or cutting along an inner dimension therefore goes through a copy in
// which the parts of all members lie one after the other; along the outermost one it needs none.
#include "FunctionLowering.h"

#include <numeric>

using namespace mlir;
using namespace hyc;

int64_t FunctionLowering::memberCount(dist::GroupAttr group) {
  auto mesh = dist::MeshOp::find(tables.program->getParentOfType<ModuleOp>());
  return mesh ? mesh.countMembers(group) : std::max<int64_t>(1, static_cast<int64_t>(group.getStages().size()));
}

rank::StartOp FunctionLowering::start(dist::ExchangeOpInterface op, Value buffer, Value destination, int64_t count,
                                      dist::AxisListAttr flat) {
  StringRef name = stringifyExchangeKind(op.getExchange()), cause = op.getCauseText();
  if (cause.empty())
    cause = getId(op);
  StringRef entry = tables.entry ? tables.entry.getSymName() : StringRef();
  rank::CollectiveOp row = tables.addCollective(rank::functionName(kind, virtualStage, entry), name,
                                                op.getExchangeGroup(), cause, op.getWhyText(), flat, op->getLoc());
  Value rowValue = rank::RowOp::create(builder, op->getLoc(), FlatSymbolRefAttr::get(row.getSymNameAttr()));
  StringRef combine = stringifyReduceKind(op.getReduction().value_or(dist::ReduceKind::sum));
  auto startOp = rank::StartOp::create(builder, op->getLoc(), rowValue, ValueRange(buffer),
                                       destination ? ValueRange(destination) : ValueRange(), name, combine, count, flat,
                                       /*distance=*/IntegerAttr());
  if (!cause.empty())
    setId(startOp, cause);
  tickets[op->getResult(0)] = startOp.getTicket();
  return startOp;
}

bool FunctionLowering::worksInPlace(Operation *op) {
  Value value = op->getOperand(0), pending = op->getResult(0);
  while (auto reshape = value.hasOneUse() ? value.getDefiningOp<ReshapeOp>() : ReshapeOp())
    value = reshape.getOperand();
  Operation *producer = value.getDefiningOp();
  if (!value.hasOneUse() || !producer || isa<SplitOp, SliceOp, TransposeOp, ReshapeOp, ScanOp, dist::WaitOp>(producer))
    return false;
  auto read = dyn_cast<ReadOp>(producer);
  if (!read)
    return !isa<IncrementOp>(producer);
  // A state may be combined in place if that is what becomes of it.
  auto wait = pending.hasOneUse() ? dyn_cast<dist::WaitOp>(*pending.user_begin()) : dist::WaitOp();
  auto write = wait && wait.getResult().hasOneUse() ? dyn_cast<WriteOp>(*wait.getResult().user_begin()) : WriteOp();
  return write && write.getTarget() == read.getSource();
}

/// Whether dimension `dim` steps slowest, so that shards lie one after the other.
static bool isOutermost(ArrayRef<int64_t> shape, int64_t dim) {
  return llvm::all_of(shape.take_front(dim), [](int64_t size) { return size == 1; });
}

namespace hyc {

/// One exchange, whatever its kind, on the way to buffers.
class ExchangeLowering {
public:
  ExchangeLowering(FunctionLowering &into, dist::ExchangeOpInterface op)
      : into(into), op(op), pending(op->getResult(0)), members(into.memberCount(op.getExchangeGroup())) {}

  LogicalResult allReduce();
  LogicalResult allGather(dist::AllGatherStartOp gather);
  LogicalResult reduceScatter(dist::ReduceScatterStartOp scatter);
  LogicalResult allToAll(dist::AllToAllStartOp exchange);
  LogicalResult shift(dist::ShiftStartOp shift);

private:
  Value operand() { return op->getOperand(0); }
  rank::BufferType operandType() { return rank::BufferType::get(op.getOperandType()); }
  rank::BufferType resultType() { return rank::BufferType::get(op.getResultType()); }
  Value allocate(rank::BufferType type, StringRef arena) { return into.allocate(type, arena, op->getLoc(), getId(op)); }

  /// Parts of all members, one after the other.
  rank::BufferType membersOf(rank::BufferType part) {
    SmallVector<int64_t> shape(part.getShape());
    shape.insert(shape.begin(), members);
    return rank::BufferType::get(op->getContext(), shape, part.getElementType(), {});
  }

  /// The operand where peers see it.
  Value denseInCommunication() {
    Value from = into.denseBufferOf(operand());
    auto alloc = rootOf(from).first.getDefiningOp<rank::AllocOp>();
    return alloc && alloc.getArena() == rank::kCommunication ? from : into.inCommunication(from, op);
  }

  Value cut(int64_t dim, rank::BufferType part);
  Value placeForParts(Value whole, int64_t dim, rank::BufferType part);

  FunctionLowering &into;
  dist::ExchangeOpInterface op;
  Value pending;
  int64_t members;
};

/// The operand where peers see it, cut along `dim` into a part for each member; zeros are in what pads the last ones.
Value ExchangeLowering::cut(int64_t dim, rank::BufferType part) {
  into.tables.share(rank::kCommunication);
  Value cut = allocate(membersOf(part), rank::kCommunication);
  auto memberType = cast<rank::BufferType>(cut.getType());
  int64_t shard = part.getShape()[dim], size = operandType().getShape()[dim];
  if (members * shard != size)
    into.call(op, "fill", cut, {}, into.named("value", into.builder.getF64FloatAttr(0)));
  Value from = into.bufferOf(operand());
  auto fromType = cast<rank::BufferType>(from.getType());
  SmallVector<int64_t> memberStrides = memberType.getStridesOrDense(), fromStrides = fromType.getStridesOrDense();
  auto copyPart = [&](int64_t firstMember, int64_t count, int64_t length) {
    SmallVector<int64_t> shape(memberType.getShape()), strides(fromStrides);
    shape[0] = count;
    shape[dim + 1] = length;
    strides.insert(strides.begin(), shard * fromStrides[dim]);
    into.copy(into.view(cut, firstMember * memberStrides[0], memberType.withLayout(shape, memberStrides)),
              into.view(from, firstMember * shard * fromStrides[dim], fromType.withLayout(shape, strides)), getId(op));
  };
  if (size / shard > 0)
    copyPart(0, size / shard, shard);
  if (size % shard)
    copyPart(size / shard, 1, size % shard);
  return cut;
}

/// Where the parts arrive that become `whole` along `dim`: there itself, if they lie as they are wanted.
Value ExchangeLowering::placeForParts(Value whole, int64_t dim, rank::BufferType part) {
  Value parts = whole;
  if (!isOutermost(part.getShape(), dim) || members * part.getNumElements() != resultType().getNumElements())
    parts = allocate(membersOf(part), rank::kActivations);
  into.received[pending] = {parts, dim};
  return parts;
}

LogicalResult ExchangeLowering::allReduce() {
  Value buffer = into.bufferOf(operand());
  auto type = cast<rank::BufferType>(buffer.getType());
  if (into.worksInPlace(op) && type.isDense())
    into.shareWhereItLies(buffer);
  else
    buffer = into.inCommunication(buffer, op);
  into.start(op, buffer, Value(), type.getNumElements());
  into.buffers[pending] = buffer;
  return success();
}

LogicalResult ExchangeLowering::allGather(dist::AllGatherStartOp gather) {
  if (gather.getFlat())
    return into.lowerFlatAllGather(gather);
  Value from = denseInCommunication();
  Value whole = allocate(resultType(), rank::kActivations);
  Value parts = placeForParts(whole, static_cast<int64_t>(*gather.getDim()), operandType());
  into.start(op, from, parts, operandType().getNumElements());
  into.buffers[pending] = whole;
  return success();
}

LogicalResult ExchangeLowering::reduceScatter(dist::ReduceScatterStartOp scatter) {
  if (scatter.getFlat())
    return into.lowerFlatReduceScatter(scatter);
  Value from = cut(static_cast<int64_t>(*scatter.getDim()), resultType());
  Value result = allocate(resultType(), rank::kActivations);
  into.start(op, from, result, resultType().getNumElements());
  into.buffers[pending] = result;
  return success();
}

LogicalResult ExchangeLowering::allToAll(dist::AllToAllStartOp exchange) {
  int64_t split = static_cast<int64_t>(exchange.getSplit()), concat = static_cast<int64_t>(exchange.getConcat());
  SmallVector<int64_t> shape(operandType().getShape());
  shape[split] = resultType().getShape()[split];
  auto part = rank::BufferType::get(op->getContext(), shape, operandType().getElementType(), {});
  bool liesInParts =
      isOutermost(operandType().getShape(), split) && members * part.getNumElements() == operandType().getNumElements();
  Value from = liesInParts ? denseInCommunication() : cut(split, part);
  Value whole = allocate(resultType(), rank::kActivations);
  into.start(op, from, placeForParts(whole, concat, part), part.getNumElements());
  into.buffers[pending] = whole;
  return success();
}

LogicalResult ExchangeLowering::shift(dist::ShiftStartOp shift) {
  Value from = denseInCommunication();
  Value result = allocate(resultType(), rank::kActivations);
  into.start(op, from, result, operandType().getNumElements()).setDistanceAttr(shift.getDistanceAttr());
  into.buffers[pending] = result;
  return success();
}

} // namespace hyc

template <> LogicalResult FunctionLowering::lower(dist::AllReduceStartOp op) {
  return ExchangeLowering(*this, op).allReduce();
}
template <> LogicalResult FunctionLowering::lower(dist::AllGatherStartOp op) {
  return ExchangeLowering(*this, op).allGather(op);
}
template <> LogicalResult FunctionLowering::lower(dist::ReduceScatterStartOp op) {
  return ExchangeLowering(*this, op).reduceScatter(op);
}
template <> LogicalResult FunctionLowering::lower(dist::AllToAllStartOp op) {
  return ExchangeLowering(*this, op).allToAll(op);
}
template <> LogicalResult FunctionLowering::lower(dist::ShiftStartOp op) {
  return ExchangeLowering(*this, op).shift(op);
}

template <> LogicalResult FunctionLowering::lower(dist::WaitOp op) {
  rank::WaitOp::create(builder, op.getLoc(), tickets.lookup(op.getPending()));
  Value buffer = bufferOf(op.getPending());
  buffers[op.getResult()] = buffer;
  auto [members, dim] = received.lookup(op.getPending());
  if (!members || members == buffer)
    return success();
  // members: [member, before, shard, after] -> whole: [before, member · shard, after], without what is padding.
  auto memberType = cast<rank::BufferType>(members.getType()), wholeType = cast<rank::BufferType>(buffer.getType());
  int64_t shard = memberType.getShape()[dim + 1], size = wholeType.getShape()[dim];
  SmallVector<int64_t> memberStrides = memberType.getStridesOrDense(), wholeStrides = wholeType.getStridesOrDense();
  auto copyPart = [&, members = members, dim = dim](int64_t firstMember, int64_t count, int64_t length) {
    SmallVector<int64_t> shape(memberType.getShape()), to(wholeStrides);
    shape[0] = count;
    shape[dim + 1] = length;
    to.insert(to.begin(), shard * wholeStrides[dim]);
    copy(view(buffer, firstMember * shard * wholeStrides[dim], wholeType.withLayout(shape, to)),
         view(members, firstMember * memberStrides[0], memberType.withLayout(shape, memberStrides)), getId(op));
  };
  int64_t full = size / shard;
  if (full > 0)
    copyPart(0, full, shard);
  if (size % shard)
    copyPart(full, 1, size % shard);
  return success();
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

template <> LogicalResult FunctionLowering::lower(dist::ShardOffsetOp op) {
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer;
  call(op, "shard_offset", result, {}, {named("axes", op.getAxes()), named("size", op.getShardSizeAttr())});
  buffers[op.getResult()] = result;
  return success();
}

template <> LogicalResult FunctionLowering::lower(dist::SliceOp op) {
  if (!op.getDim()) {
    buffers[op.getResult()] = shardView(denseBufferOf(op.getOperand()), op.getAxes());
    return success();
  }
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer;
  call(op, "slice_shard", result, denseBufferOf(op.getOperand()),
       {named("dim", op.getDimAttr()), named("axes", op.getAxes())});
  buffers[op.getResult()] = result;
  return success();
}

void hyc::addExchangeLowerings(LoweringTable &table) {
  table.add<dist::AllReduceStartOp, dist::AllGatherStartOp, dist::ReduceScatterStartOp, dist::AllToAllStartOp,
            dist::ShiftStartOp, dist::WaitOp, dist::ShardOffsetOp, dist::SliceOp>();
}
