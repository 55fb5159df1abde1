// What moves of states and copies of values between memories are, told from their ops.
#ifndef HYC_LIB_TRANSFORMS_LOCAL_MOVES_H
#define HYC_LIB_TRANSFORMS_LOCAL_MOVES_H

#include "dialects/Dist/Placement.h"
#include "hyc/Analysis/NamedSymbols.h"

namespace hyc::local {

/// The start of a move whose end `op` awaits; null where it is no such wait.
inline mlir::Operation *startOfMove(mlir::Operation *op) {
  if (auto wait = llvm::dyn_cast<dist::WaitMoveOp>(op))
    return wait.getPending().getDefiningOp();
  auto wait = llvm::dyn_cast<dist::WaitOp>(op);
  return wait ? wait.getPending().getDefiningOp<dist::CopyStartOp>() : nullptr;
}

/// Whether `op` reads or changes the state, or moves it.
inline bool touchesState(mlir::Operation *op, mlir::FlatSymbolRefAttr state) {
  return namesSymbol(op, state) || (llvm::isa<dist::WaitMoveOp>(op) && namesSymbol(startOfMove(op), state));
}

} // namespace hyc::local

#endif // HYC_LIB_TRANSFORMS_LOCAL_MOVES_H
