// Verifiers of moves, and where states are placed.
#include "dialects/Dist/Placement.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace hyc::dist;

#define GET_OP_CLASSES
#include "dialects/Dist/MoveOps.cpp.inc"

StringRef hyc::dist::placementOf(Operation *symbol) {
  auto placement = symbol->getAttrOfType<StringAttr>(kPlacement);
  return placement ? placement.getValue() : StringRef(kOnDevice);
}

static LogicalResult verifyPlace(Operation *op, StringRef place) {
  if (place == kOnDevice || place == kOnHost)
    return success();
  return op->emitOpError("[move.place] names \"") << place << "\", expected \"device\" or \"host\"";
}

/// The state, or with `flat` its shard, is of the token's type. Params and states are the hyc dialect's, so they are
/// looked at by their attribute.
static LogicalResult verifyState(Operation *op, FlatSymbolRefAttr state, AxisListAttr flat, PendingType pending,
                                 SymbolTableCollection &symbols) {
  Operation *declared = symbols.lookupNearestSymbolFrom(op, state);
  auto attribute = declared ? declared->getAttrOfType<TypeAttr>("type") : TypeAttr();
  auto type = attribute ? dyn_cast<RankedTensorType>(attribute.getValue()) : RankedTensorType();
  if (!type)
    return op->emitOpError("[move.state] moves ")
           << state << " as " << pending.getTensor() << ", but there is no param or state of this name";
  auto moved = type;
  if (flat) {
    MeshOp mesh = MeshOp::find(op->getParentOfType<ModuleOp>());
    if (!mesh)
      return op->emitOpError("[move.state] moves a flat shard, but the module has no dist.mesh");
    moved = RankedTensorType::get({flatShardSize(type.getNumElements(), mesh.getSize(flat))}, type.getElementType());
  }
  if (moved == pending.getTensor())
    return success();
  return op->emitOpError("[move.state] moves ") << state << " as " << pending.getTensor() << ", but it is " << moved;
}

LogicalResult FetchStartOp::verify() { return verifyPlace(*this, getTo()); }
LogicalResult EvictStartOp::verify() { return verifyPlace(*this, getFrom()); }

LogicalResult CopyStartOp::verify() {
  if (failed(verifyPlace(*this, getTo())))
    return failure();
  if (getPending().getType().getTensor() == getOperand().getType())
    return success();
  return emitOpError("copies ") << getOperand().getType() << " as " << getPending().getType().getTensor();
}

LogicalResult FetchStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, getStateAttr(), getFlatAttr(), getPending().getType(), symbols);
}
LogicalResult EvictStartOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyState(*this, getStateAttr(), getFlatAttr(), getPending().getType(), symbols);
}

LogicalResult WaitMoveOp::verify() {
  if (isa_and_nonnull<FetchStartOp, EvictStartOp>(getPending().getDefiningOp()))
    return success();
  return emitOpError("[move.token] waits for what no fetch_start or evict_start began");
}
