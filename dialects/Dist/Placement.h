// Where states are kept: the attribute dist.placement of params and states, and the ops that move them (MoveOps.td).
#ifndef HYC_DIALECTS_DIST_PLACEMENT_H
#define HYC_DIALECTS_DIST_PLACEMENT_H

#include "dialects/Dist/DistDialect.h"

#define GET_OP_CLASSES
#include "dialects/Dist/MoveOps.h.inc"

namespace hyc::dist {

/// On params and states: "host", "nvme" or "device", which is where a state is that does not say.
inline constexpr llvm::StringLiteral kPlacement = "dist.placement";

inline constexpr llvm::StringLiteral kOnDevice = "device";
inline constexpr llvm::StringLiteral kOnHost = "host";
inline constexpr llvm::StringLiteral kOnDisk = "nvme";

/// Where a param or state is kept.
llvm::StringRef placementOf(mlir::Operation *symbol);

} // namespace hyc::dist

#endif // HYC_DIALECTS_DIST_PLACEMENT_H
