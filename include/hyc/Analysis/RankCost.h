// What an op of a planned program costs one rank: whole-tensor figures divided as the recorded shardings split them.
#ifndef HYC_ANALYSIS_RANKCOST_H
#define HYC_ANALYSIS_RANKCOST_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"

namespace hyc {

/// Bytes of what one rank holds of `value`, padding included.
int64_t bytesPerRank(mlir::Value value, dist::MeshOp mesh);

/// Floating-point operations of `op` on one rank, by its CostOpInterface; 0 for ops without one, rounded up for others.
int64_t flopsPerRank(mlir::Operation *op, dist::MeshOp mesh);

/// Bytes that one rank contributes to the exchanges which close the partial results of `op`.
int64_t exchangedBytesPerRank(mlir::Operation *op, dist::MeshOp mesh);

} // namespace hyc

#endif // HYC_ANALYSIS_RANKCOST_H
