// OpSharding: how one op is split over the mesh, and what that asks of its operands.
//
// Propagation and partitioning both ask here, so that they cannot disagree. An op's split is one list of mesh axes a
// factor; results follow from it, and so does what each operand must look like. A sum that is left open shows as
// `partial` axes of a result.
//
// Why the split itself is recorded (`dist.split`) beside the results' shardings: results don't tell it. `partial {tp}`
// of (i,k),(k,j)->(i,j) says that something contracted was split over tp. Whether an operand arrives split over tp in k
// says nothing either: its maker may have used tp for another factor, and the op then slices it. Guessing from both
// sums the same product tp times.
#ifndef HYC_ANALYSIS_OPSHARDING_H
#define HYC_ANALYSIS_OPSHARDING_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"

namespace hyc {

using Axes = llvm::SmallVector<mlir::StringAttr, 2>;

struct OpSharding {
  llvm::SmallVector<Axes, 6> factorAxes;    // axes that split each factor, major to minor
  llvm::SmallVector<Axes, 3> passedPartial; // per operand: partial axes that the op may leave open

  /// What operand `index` must look like.
  dist::ShardingAttr operandSharding(mlir::MLIRContext *context, const ShardingRule &rule, int index) const;
  /// What result `index` then looks like.
  dist::ShardingAttr resultSharding(mlir::MLIRContext *context, const ShardingRule &rule, int index) const;
  /// The split as `dist.split` has it; null where no factor is split.
  mlir::ArrayAttr splitAttr(mlir::MLIRContext *context) const;
};

/// Drops what can't be split: replicated factors, factors that are minor in a merged dimension whose major ones are not
/// cut into single elements (only then are their parts contiguous), and an axis's second and later uses in one op.
void legalize(OpSharding &sharding, const ShardingRule &rule, dist::MeshOp mesh);

/// Partial axes of the operands' shardings that `op`, being linear, may pass on to its result instead of closing them;
/// one list an operand. Axes that split one of its factors (`factorAxes`, legal) have to be closed: ranks that keep
/// different elements cannot add them up later.
llvm::SmallVector<Axes, 3> passablePartial(mlir::Operation *op, llvm::ArrayRef<dist::ShardingAttr> operands,
                                           llvm::ArrayRef<Axes> factorAxes);

/// The sharding of a value as phase 3 recorded it on its op or argument.
dist::ShardingAttr recordedSharding(mlir::Value value);

/// An op's split as phase 3 recorded it. An error where the record contradicts itself:
///
/// 1. `dist.split` has one axis list a factor, and asks for nothing that `legalize` would drop;
/// 2. every result's sharding is what that split gives;
/// 3. sums that a result leaves open come from the split, or from operands that all have them open.
mlir::FailureOr<OpSharding> recordedOpSharding(mlir::Operation *op, const ShardingRule &rule, dist::MeshOp mesh);

} // namespace hyc

#endif // HYC_ANALYSIS_OPSHARDING_H
