// Probe: a model cut down to two of its equal layers, planned with a stage a layer, and what its programs say.
#ifndef HYC_LIB_PLANNER_PROBE_H
#define HYC_LIB_PLANNER_PROBE_H

#include "hyc/Analysis/Layers.h"
#include "hyc/Planner/CostModel.h"

namespace hyc {

/// The layers of the whole model, and which of them are equal.
struct ModelLayers {
  size_t count = 0;
  LayerRun run;                 ///< before any layer was taken out
  std::vector<std::string> ops; ///< of each layer one, by which a plan cuts before it
};

/// Runs the passes that make a model trainable over what was imported, layers that repeat taken out but two.
mlir::FailureOr<ModelLayers> reduceAndTrain(mlir::ModuleOp imported, const Plan &plan);

/// What a probe told, and the programs that told it.
struct Probed {
  mlir::OwningOpRef<mlir::ModuleOp> programs;
  ModelCost cost;
};

/// A clone of what reduceAndTrain left, planned with a stage a layer as far as that is the same for every way of
/// recomputation; null where that cannot be.
mlir::OwningOpRef<mlir::ModuleOp> planForProbes(mlir::ModuleOp train, const ModelLayers &layers, const Plan &base,
                                                const Layout &layout);

/// Goes on with a clone of what planForProbes left. Nothing where that cannot be.
std::optional<Probed> probe(mlir::ModuleOp planned, const ModelLayers &layers, const Plan &base, const Layout &layout,
                            const MachineRates &rates);

/// Times its programs anew, on a machine of these rates.
void timeProbe(const ModelLayers &layers, const MachineRates &rates, Probed &probed);

} // namespace hyc

#endif // HYC_LIB_PLANNER_PROBE_H
