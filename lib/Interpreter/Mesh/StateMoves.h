// States that are not kept on the device (phase 4): copies that were fetched, and what is on its way.
//
// A move completes as late as its wait allows: what was fetched is seen after it, what was evicted is back after it.
#ifndef HYC_LIB_INTERPRETER_MESH_STATEMOVES_H
#define HYC_LIB_INTERPRETER_MESH_STATEMOVES_H

#include "Ops/OpTable.h"
#include "dialects/Dist/Placement.h"

namespace hyc::interpreter {

/// The value of a state that an op works on now: its copy, if it was fetched, else where it is kept.
struct HeldState {
  Tensor *value;
  bool isShard; ///< a copy of this rank's flat shard of a state that is kept whole
};

/// Fails after a diagnostic where the rank has none, or where it is on its way.
llvm::FailureOr<HeldState> findHeldState(OpCall &call, llvm::StringRef symbol);

/// Where findHeldState finds it.
llvm::StringRef placeOfHeldState(const Device &device, llvm::StringRef symbol);

/// Fails, after a diagnostic, unless all these states are in one place that can compute, for GPUs in any; `place`
/// narrows it down.
llvm::LogicalResult checkPlaces(OpCall &call, llvm::ArrayRef<llvm::StringRef> symbols, llvm::StringRef place = "");

/// Executes a fetch_start, evict_start or wait_move.
llvm::LogicalResult executeMove(mlir::Operation *op, Device &device);

/// At a function's end: copies are gone; a move that nobody waited for is a diagnostic at `function`.
llvm::LogicalResult endMoves(mlir::Operation *function, Device &device);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_MESH_STATEMOVES_H
