// Collectives, and what depends on a rank's coordinates.
//
// The runtime's collectives see flat ranges. Gathering or scattering along an inner dimension therefore goes through a
// member-major copy; along the outermost one it needs none.
#include "FunctionLowering.h"

#include <numeric>

using namespace mlir;
using namespace hyc;

int64_t FunctionLowering::memberCount(dist::GroupAttr group) {
  auto mesh = dist::MeshOp::find(tables.program->getParentOfType<ModuleOp>());
  int64_t ranks = mesh ? mesh.getSize(group.getAxes()) : 1;
  return ranks * std::max<int64_t>(1, group.getStages().size());
}

Value FunctionLowering::start(Operation *op, StringRef exchange, StringRef combine, dist::GroupAttr group, Value buffer,
                              Value destination, int64_t count, dist::AxisListAttr flat) {
  auto text = [&](StringRef name) {
    auto attribute = op->getAttrOfType<StringAttr>(name);
    return attribute ? attribute.getValue() : StringRef();
  };
  StringRef cause = text("cause").empty() ? getId(op) : text("cause");
  rank::CollectiveOp row = tables.addCollective(rank::functionName(kind, virtualStage), exchange, group, cause,
                                                text("why"), flat, op->getLoc());
  Value rowValue = rank::RowOp::create(builder, op->getLoc(), FlatSymbolRefAttr::get(row.getSymNameAttr()));
  auto startOp =
      rank::StartOp::create(builder, op->getLoc(), rowValue, ValueRange(buffer),
                            destination ? ValueRange(destination) : ValueRange(), exchange, combine, count, flat);
  if (!cause.empty())
    startOp->setAttr("id", builder.getStringAttr(cause));
  return startOp.getTicket();
}

//===----------------------------------------------------------------------===//
// all_reduce
//===----------------------------------------------------------------------===//

bool FunctionLowering::worksInPlace(Operation *op) {
  Value value = op->getOperand(0), pending = op->getResult(0);
  while (auto reshape = value.hasOneUse() ? value.getDefiningOp<ReshapeOp>() : ReshapeOp())
    value = reshape.getOperand();
  Operation *producer = value.getDefiningOp();
  if (!value.hasOneUse() || !producer || isa<SplitOp, SliceOp, TransposeOp, ReshapeOp, dist::WaitOp>(producer))
    return false;
  auto read = dyn_cast<ReadOp>(producer);
  if (!read)
    return !isa<IncrementOp>(producer);
  // A state may be combined in place if that is what becomes of it.
  auto wait = pending.hasOneUse() ? dyn_cast<dist::WaitOp>(*pending.user_begin()) : dist::WaitOp();
  auto write = wait && wait.getResult().hasOneUse() ? dyn_cast<WriteOp>(*wait.getResult().user_begin()) : WriteOp();
  return write && write.getTarget() == read.getSource();
}

template <> LogicalResult FunctionLowering::lower(dist::AllReduceStartOp op) {
  Value buffer = bufferOf(op.getOperand());
  auto type = cast<rank::BufferType>(buffer.getType());
  if (worksInPlace(op) && type.isDense()) {
    shareWhereItLies(buffer);
  } else {
    tables.share(kCommunication);
    Value shared = allocate(type, kCommunication, op.getLoc(), getId(op));
    copy(shared, buffer, getId(op));
    buffer = shared;
  }
  tickets[op.getPending()] =
      start(op, "all_reduce", stringifyReduceKind(op.getKind()), op.getGroup(), buffer, Value(), type.getNumElements());
  buffers[op.getPending()] = buffer;
  return success();
}

template <> LogicalResult FunctionLowering::lower(dist::WaitOp op) {
  rank::WaitOp::create(builder, op.getLoc(), tickets.lookup(op.getPending()));
  Value buffer = bufferOf(op.getPending());
  buffers[op.getResult()] = buffer;
  Value members = gathered.lookup(op.getPending());
  if (!members || members == buffer)
    return success();
  // members: [member, before, shard, after] -> whole: [before, member · shard, after], without what is padding.
  auto memberType = cast<rank::BufferType>(members.getType()), wholeType = cast<rank::BufferType>(buffer.getType());
  auto gather = op.getPending().getDefiningOp<dist::AllGatherStartOp>();
  int64_t dim = static_cast<int64_t>(*gather.getDim()), shard = memberType.getShape()[dim + 1],
          size = wholeType.getShape()[dim];
  SmallVector<int64_t> memberStrides = memberType.getStridesOrDense(), wholeStrides = wholeType.getStridesOrDense();
  auto copyPart = [&](int64_t firstMember, int64_t count, int64_t length) {
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
// all_gather and reduce_scatter
//===----------------------------------------------------------------------===//

/// Whether dimension `dim` steps slowest, so that shards lie one after the other.
static bool isOutermost(ArrayRef<int64_t> shape, int64_t dim) {
  return llvm::all_of(shape.take_front(dim), [](int64_t size) { return size == 1; });
}

template <> LogicalResult FunctionLowering::lower(dist::AllGatherStartOp op) {
  if (op.getFlat())
    return lowerFlatAllGather(op);
  auto shardType = rank::BufferType::get(cast<RankedTensorType>(op.getOperand().getType()));
  auto wholeType = rank::BufferType::get(op.getPending().getType().getTensor());
  int64_t members = memberCount(op.getGroup()), dim = static_cast<int64_t>(*op.getDim());
  Value from = denseBufferOf(op.getOperand());
  auto alloc = rootOf(from).first.getDefiningOp<rank::AllocOp>();
  if (!alloc || alloc.getArena() != kCommunication) {
    tables.share(kCommunication);
    Value shared = allocate(shardType, kCommunication, op.getLoc(), getId(op));
    copy(shared, from, getId(op));
    from = shared;
  }
  Value whole = allocate(wholeType, kActivations, op.getLoc(), getId(op)), destination = whole;
  if (!isOutermost(shardType.getShape(), dim) || members * shardType.getNumElements() != wholeType.getNumElements()) {
    SmallVector<int64_t> shape(shardType.getShape());
    shape.insert(shape.begin(), members);
    destination = allocate(rank::BufferType::get(op.getContext(), shape, shardType.getElementType(), {}), kActivations,
                           op.getLoc(), getId(op));
  }
  tickets[op.getPending()] =
      start(op, "all_gather", "sum", op.getGroup(), from, destination, shardType.getNumElements());
  buffers[op.getPending()] = whole;
  gathered[op.getPending()] = destination;
  return success();
}

template <> LogicalResult FunctionLowering::lower(dist::ReduceScatterStartOp op) {
  if (op.getFlat())
    return lowerFlatReduceScatter(op);
  auto wholeType = rank::BufferType::get(cast<RankedTensorType>(op.getOperand().getType()));
  auto shardType = rank::BufferType::get(op.getPending().getType().getTensor());
  int64_t members = memberCount(op.getGroup()), dim = static_cast<int64_t>(*op.getDim()),
          shard = shardType.getShape()[dim], size = wholeType.getShape()[dim];
  tables.share(kCommunication);
  // Member-major, padded with zeros.
  SmallVector<int64_t> shape(shardType.getShape());
  shape.insert(shape.begin(), members);
  Value scattered = allocate(rank::BufferType::get(op.getContext(), shape, wholeType.getElementType(), {}),
                             kCommunication, op.getLoc(), getId(op));
  auto memberType = cast<rank::BufferType>(scattered.getType());
  if (members * shard != size)
    call(op, "fill", scattered, {}, named("value", builder.getF64FloatAttr(0)));
  Value from = bufferOf(op.getOperand());
  auto fromType = cast<rank::BufferType>(from.getType());
  SmallVector<int64_t> memberStrides = memberType.getStridesOrDense(), fromStrides = fromType.getStridesOrDense();
  auto copyPart = [&](int64_t firstMember, int64_t count, int64_t length) {
    SmallVector<int64_t> part(shape), strides(fromStrides);
    part[0] = count;
    part[dim + 1] = length;
    strides.insert(strides.begin(), shard * fromStrides[dim]);
    copy(view(scattered, firstMember * memberStrides[0], memberType.withLayout(part, memberStrides)),
         view(from, firstMember * shard * fromStrides[dim], fromType.withLayout(part, strides)), getId(op));
  };
  if (size / shard > 0)
    copyPart(0, size / shard, shard);
  if (size % shard)
    copyPart(size / shard, 1, size % shard);
  Value result = allocate(shardType, kActivations, op.getLoc(), getId(op));
  tickets[op.getPending()] =
      start(op, "reduce_scatter", "sum", op.getGroup(), scattered, result, shardType.getNumElements());
  buffers[op.getPending()] = result;
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
  table.add<dist::AllReduceStartOp, dist::AllGatherStartOp, dist::ReduceScatterStartOp, dist::WaitOp,
            dist::ShardOffsetOp, dist::SliceOp>();
}
