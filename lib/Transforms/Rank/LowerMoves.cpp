// Fetches and evictions: a copy is a temporary of the arena that it is for.
#include "FunctionLowering.h"
#include "dialects/Rank/Moves.h"

using namespace mlir;
using namespace hyc;

template <> LogicalResult FunctionLowering::lower(dist::FetchStartOp op) {
  Value home = homeOf(op, op.getState());
  if (!home)
    return failure();
  rank::StateOp state = tables.getState(op, op.getState());
  StringRef onDevice = factsOfRole(state.getRole()).role == StateRole::gradient ? rank::kGradients : rank::kParameters;
  StringRef arena = op.getTo() == dist::kOnHost ? StringRef(rank::kHost) : onDevice;
  Value copy =
      allocate(rank::BufferType::get(op.getPending().getType().getTensor()), arena, op.getLoc(), op.getState());
  if (state.getArena() == rank::kNvme)
    copy.getDefiningOp()->setAttr(rank::kWholeBlocks, builder.getUnitAttr());
  Value source = op.getFlat() ? shardView(home, *op.getFlat()) : home;
  tickets[op.getPending()] = startMove(op, "fetch", op.getState(), copy, source);
  buffers[op.getPending()] = copy;
  return success();
}

template <> LogicalResult FunctionLowering::lower(dist::EvictStartOp op) {
  Value home = homeOf(op, op.getState());
  if (!home)
    return failure();
  FetchedCopy copy = copies.lookup(op.getState());
  if (!copy.buffer || copy.isShard != op.getFlat().has_value())
    return op.emitOpError("evicts @") << op.getState() << ", of which no fetch made "
                                      << (copy.buffer ? "such a copy" : "a copy");
  Value destination = op.getFlat() ? shardView(home, *op.getFlat()) : home;
  tickets[op.getPending()] = startMove(op, "evict", op.getState(), destination, copy.buffer);
  copies.erase(op.getState());
  return success();
}

Value FunctionLowering::startMove(Operation *op, StringRef kind, StringRef state, Value destination, Value source) {
  auto move =
      rank::MoveOp::create(builder, op->getLoc(), rank::TicketType::get(op->getContext()), kind, destination, source);
  setId(move, state);
  return move.getTicket();
}

/// The copy on the host becomes a record of that arena where the function returns it.
template <> LogicalResult FunctionLowering::lower(dist::CopyStartOp op) {
  bool toHost = op.getTo() == dist::kOnHost;
  auto wait = cast<dist::WaitOp>(*op.getPending().user_begin());
  Value from = denseBufferOf(op.getOperand());
  Value to = allocate(cast<rank::BufferType>(from.getType()),
                      toHost ? StringRef(rank::kHost) : arenaFor(wait.getResult()), op.getLoc(), getId(wait));
  tickets[op.getPending()] = startMove(op, toHost ? "evict" : "fetch", getId(wait), to, from);
  buffers[op.getPending()] = to;
  return success();
}

template <> LogicalResult FunctionLowering::lower(dist::WaitMoveOp op) {
  rank::WaitOp::create(builder, op.getLoc(), tickets.lookup(op.getPending()));
  if (auto fetch = op.getPending().getDefiningOp<dist::FetchStartOp>())
    copies[fetch.getState()] = {buffers.lookup(op.getPending()), fetch.getFlat().has_value()};
  return success();
}

void hyc::addMoveLowerings(LoweringTable &table) {
  table.add<dist::FetchStartOp, dist::EvictStartOp, dist::WaitMoveOp, dist::CopyStartOp>();
}
