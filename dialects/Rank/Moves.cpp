// The verifier of moves, and which buffers lie in files.
#include "dialects/Rank/Moves.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hyc::rank;

#define GET_OP_CLASSES
#include "dialects/Rank/RankMoveOps.cpp.inc"

LogicalResult MoveOp::verify() {
  if (getKind() != "fetch" && getKind() != "evict")
    return emitOpError("[move.kind] is \"") << getKind() << "\", expected fetch or evict";
  BufferType source = getSource().getType(), destination = getDestination().getType();
  BufferType copy = getKind() == "fetch" ? destination : source;
  if (source.isDense() && destination.isDense() && !copy.isShard() && source.getShape() == destination.getShape() &&
      source.getElementType() == destination.getElementType())
    return success();
  return emitOpError("[move.types] copies ")
         << source << " to " << destination << ", expected one dense type, and a shard only where the state is kept";
}

StringRef hyc::rank::arenaOf(Value buffer) {
  if (auto place = buffer.getDefiningOp<AtOp>())
    return place.getArena();
  auto argument = dyn_cast<BlockArgument>(buffer);
  auto func = argument ? dyn_cast<FuncOp>(argument.getOwner()->getParentOp()) : FuncOp();
  ArrayAttr arenas = func ? func.getArgumentArenasAttr() : ArrayAttr();
  return arenas ? cast<StringAttr>(arenas[argument.getArgNumber()]).getValue().split(' ').first : StringRef();
}

bool hyc::rank::isInFile(Value buffer) {
  StringRef name = arenaOf(buffer);
  Operation *scope =
      buffer.getDefiningOp() ? buffer.getDefiningOp() : cast<BlockArgument>(buffer).getOwner()->getParentOp();
  auto program = scope->getParentOfType<ProgramOp>();
  if (name.empty() || !program)
    return false;
  auto arena = program.lookupSymbol<ArenaOp>(name);
  return arena && arena->hasAttr(kFile);
}
