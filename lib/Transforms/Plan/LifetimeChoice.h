// The two choices of lifetimes that weigh costs: attention's internals, and a minimum cut under a budget. Both only
// name ops; the pass writes the attributes.
#ifndef HYC_LIB_TRANSFORMS_PLAN_LIFETIMECHOICE_H
#define HYC_LIB_TRANSFORMS_PLAN_LIFETIMECHOICE_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/Layers.h"

namespace hyc::plan {

/// Ops of @microbatch that backward may execute again, by what the pass knows of effects, layers and schedule.
using Candidates = llvm::DenseSet<mlir::Operation *>;

/// Ops between two contractions whose values are large for what they cost: a contraction of two activations whose
/// result is larger than both (scores), and everything up to the next contraction (scale, mask, softmax), if that costs
/// fewer operations per saved byte than the model's forward does on average.
llvm::SmallVector<mlir::Operation *> findCheapExpansions(FuncOp func, dist::MeshOp mesh, const Candidates &candidates);

/// One chunk's least costly ops to execute again such that one micro-batch saves at most `bytes` on a rank; where that
/// cannot be, those that save the fewest. Layers are the groups of RecomputationProblem.
llvm::SmallVector<mlir::Operation *> chooseWithinBudget(FuncOp func, dist::MeshOp mesh, int64_t chunk,
                                                        const Candidates &candidates, llvm::ArrayRef<Layer> layers,
                                                        int64_t bytes);

} // namespace hyc::plan

#endif // HYC_LIB_TRANSFORMS_PLAN_LIFETIMECHOICE_H
