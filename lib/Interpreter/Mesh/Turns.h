// Ranks in turns, each as far as it gets before it needs another one.
#ifndef HYC_LIB_INTERPRETER_MESH_TURNS_H
#define HYC_LIB_INTERPRETER_MESH_TURNS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"

namespace hyc::interpreter {

/// Runs every rank to its end, or fails after a diagnostic: of the rank that failed, or of `module` where all of them
/// wait. `Rank` is a RankProcess or a RankMachine.
template <typename Rank> llvm::LogicalResult takeTurns(mlir::ModuleOp module, llvm::MutableArrayRef<Rank> ranks) {
  using Outcome = typename Rank::Outcome;
  for (bool progress = true; progress;) {
    progress = false;
    bool allFinished = true;
    for (Rank &rank : ranks) {
      if (rank.isFinished())
        continue;
      Outcome outcome = rank.advance();
      if (outcome == Outcome::Failed)
        return llvm::failure();
      progress |= outcome != Outcome::Waits;
      allFinished &= outcome == Outcome::Finished;
    }
    if (allFinished)
      return llvm::success();
  }
  mlir::InFlightDiagnostic error = module.emitError("deadlock: no rank can go on");
  for (Rank &rank : ranks)
    error.attachNote() << rank.describeWait();
  return error;
}

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_MESH_TURNS_H
