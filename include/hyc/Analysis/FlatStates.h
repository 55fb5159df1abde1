// What is flat of a parameter and its states, and what follows from it.
//
// A parameter's update works on flat shards as soon as one of its optimizer states (or, where the optimizer has none,
// its gradient, itself or its copy in the compute type) is flat: each rank then updates its own shard, whether the
// other tensors are stored flat or whole. Worked on dp 2 with m and v flat: a whole gradient is summed into each rank's
// own slice of it, the rank updates its own slice of the whole parameter with its m and v, and the slices are gathered
// where they lie.
#ifndef HYC_ANALYSIS_FLATSTATES_H
#define HYC_ANALYSIS_FLATSTATES_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"

namespace hyc {

/// A parameter, its gradient (null where it is frozen), its copy in the compute type, or the codes that are kept in its
/// place (null where there are none), and what the optimizer keeps of it.
struct ParamStates {
  ParamOp param;
  StateOp gradient;
  StateOp copy;
  llvm::SmallVector<StateOp, 2> optimizer;

  /// Axes over whose flat shards the update works; empty: it works on whole tensors.
  dist::AxisListAttr updateAxes() const;

  /// What forward and backward read, and gather for each use where it is flat: the copy, or else the parameter. A
  /// parameter beside its copy is the optimizer's alone.
  mlir::Operation *used() const;
};

/// Of every parameter of the module, in its order.
llvm::SmallVector<ParamStates> collectParamStates(mlir::ModuleOp module);

/// The flat axes of a param or state; an empty list where it is stored whole.
dist::AxisListAttr flatAxesOf(mlir::Operation *symbol);

/// Whether a gradient state is summed over ranks as each contribution is made, not once a step.
bool isReducedPerMicroBatch(mlir::Operation *gradient);

/// What one rank holds of `whole`: the local tensor, or with flat axes its shard of that.
mlir::RankedTensorType heldType(mlir::RankedTensorType whole, dist::ShardingAttr sharding, dist::MeshOp mesh);

/// Checks flat.states, flat.gradient and flat.axes (see hyc-shard-states).
llvm::LogicalResult checkFlatStates(mlir::ModuleOp module, dist::MeshOp mesh);

} // namespace hyc

#endif // HYC_ANALYSIS_FLATSTATES_H
