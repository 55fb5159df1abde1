// Flat shards: views of states, and the exchanges that sum into them and join them.
//
// Nothing is copied that need not be: a sum is left in this rank's own slice of the source, and slices of a parameter
// are joined where they lie.
#include "FunctionLowering.h"

using namespace mlir;
using namespace hyc;

int64_t FunctionLowering::flatShardSize(int64_t elements, dist::AxisListAttr axes) {
  auto mesh = dist::MeshOp::find(tables.program->getParentOfType<ModuleOp>());
  return dist::flatShardSize(elements, mesh ? mesh.getSize(axes) : 1);
}

Value FunctionLowering::shardView(Value buffer, dist::AxisListAttr axes) {
  auto type = cast<rank::BufferType>(buffer.getType());
  return view(buffer, 0, type.shard(axes, flatShardSize(type.getNumElements(), axes)));
}

Value FunctionLowering::shardOrAddressOf(Operation *user, StringRef name) {
  Value address = addressOf(user, name);
  auto axes = user->getAttrOfType<dist::AxisListAttr>(dist::kFlat);
  if (!address || !axes || tables.getState(user, name).getFlat() || copies.lookup(name).isShard)
    return address;
  return shardView(address, axes);
}

rank::StateOp FunctionLowering::stateOf(Value buffer) {
  auto address = rootOf(buffer).first.getDefiningOp<rank::AddressOp>();
  return address ? tables.findState(address.getSymbol()) : rank::StateOp();
}

/// Whether peers may see `buffer` where it is: in a state or in a fetched copy of one, whose arena is then shared, or
/// in the communication arena.
bool FunctionLowering::shareWhereItLies(Value buffer) {
  if (rank::StateOp state = stateOf(buffer)) {
    tables.share(state.getArena());
    return true;
  }
  auto alloc = rootOf(buffer).first.getDefiningOp<rank::AllocOp>();
  if (alloc && (alloc.getArena() == rank::kParameters || alloc.getArena() == rank::kGradients)) {
    tables.share(alloc.getArena());
    return true;
  }
  return alloc && alloc.getArena() == rank::kCommunication;
}

Value FunctionLowering::inCommunication(Value buffer, Operation *op) {
  tables.share(rank::kCommunication);
  Value shared = allocate(cast<rank::BufferType>(buffer.getType()), rank::kCommunication, op->getLoc(), getId(op));
  copy(shared, buffer, getId(op));
  return shared;
}

LogicalResult FunctionLowering::lowerFlatReduceScatter(dist::ReduceScatterStartOp op) {
  Value whole = bufferOf(op.getOperand());
  auto type = cast<rank::BufferType>(whole.getType());
  // What others' slices hold afterwards is no value: a fetched copy would be written back with it.
  bool isCopy = rootOf(whole).first.getDefiningOp<rank::AllocOp>() && op.getOperand().getDefiningOp<ReadOp>();
  if (isCopy || !worksInPlace(op) || !type.isDense() || !shareWhereItLies(whole))
    whole = inCommunication(whole, op);
  start(op, whole, Value(), type.getNumElements(), *op.getFlat());
  buffers[op.getPending()] = shardView(whole, *op.getFlat());
  return success();
}

/// The state that is all that becomes of a gathered value, if its own slice is what is gathered.
static WriteOp writeBack(dist::AllGatherStartOp op) {
  auto read = op.getOperand().getDefiningOp<ReadOp>();
  auto wait = op.getPending().hasOneUse() ? dyn_cast<dist::WaitOp>(*op.getPending().user_begin()) : dist::WaitOp();
  auto write = wait && wait.getResult().hasOneUse() ? dyn_cast<WriteOp>(*wait.getResult().user_begin()) : WriteOp();
  return read && write && write.getTarget() == read.getSource() ? write : WriteOp();
}

LogicalResult FunctionLowering::lowerFlatAllGather(dist::AllGatherStartOp op) {
  auto wholeType = rank::BufferType::get(op.getPending().getType().getTensor());
  Value shard = denseBufferOf(op.getOperand());
  Value whole;
  if (WriteOp write = writeBack(op)) {
    whole = addressOf(write, write.getTarget());
  } else {
    // A parameter for one use: beside the states, so that the arena tells what parameters take in all.
    whole = allocate(wholeType, rank::kParameters, op.getLoc(), getId(op));
    if (auto read = op.getOperand().getDefiningOp<ReadOp>())
      setId(whole.getDefiningOp(), read.getSource());
  }
  if (!shareWhereItLies(shard))
    shard = inCommunication(shard, op);
  start(op, shard, whole, wholeType.getNumElements(), *op.getFlat());
  buffers[op.getPending()] = whole;
  return success();
}
