// Moves between arenas (phase 5): they complete at their wait, as late as they may.
#include "Rank/RankMachine.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

LogicalResult RankMachine::startMove(rank::MoveOp op) {
  Move move{regionOf(op.getSource()), regionOf(op.getDestination())};
  // That everything is there is checked now; what is taken is what is there in the end.
  if (failed(own.memory.load(op, move.source)) || failed(own.memory.note(op, move.source, ByteNote::Lent)) ||
      failed(own.memory.note(op, move.destination, ByteNote::Promised)))
    return failure();
  moves[op.getTicket()] = std::move(move);
  return success();
}

LogicalResult RankMachine::finishMove(rank::WaitOp op) {
  auto entry = moves.find(op.getTicket());
  Move move = std::move(entry->second);
  moves.erase(entry);
  FailureOr<Tensor> value = own.memory.load(op, move.source);
  if (failed(value) || failed(own.memory.note(op, move.source, ByteNote::Defined)) ||
      failed(own.memory.note(op, move.destination, ByteNote::Defined)))
    return failure();
  // Of a shard only the elements that exist are there; a copy of it is filled up with zeros.
  return own.memory.store(op, move.destination, value->window(0, 0, move.destination.shape[0]));
}
