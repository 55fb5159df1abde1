// Passes of phase 5, declared from Passes.td; what each does is described there.
#ifndef HYC_TRANSFORMS_RANK_PASSES_H
#define HYC_TRANSFORMS_RANK_PASSES_H

#include "hyc/Analysis/MemoryAccount.h"
#include "mlir/Pass/Pass.h"

#include <functional>

namespace hyc {

/// Told what was placed, stage by stage.
using PlacementListener = std::function<void(StageAccount)>;

#define GEN_PASS_DECL
#include "hyc/Transforms/Rank/Passes.h.inc"

std::unique_ptr<mlir::Pass> createPlaceBuffers(PlacementListener listener);

#define GEN_PASS_REGISTRATION
#include "hyc/Transforms/Rank/Passes.h.inc"

} // namespace hyc

#endif // HYC_TRANSFORMS_RANK_PASSES_H
