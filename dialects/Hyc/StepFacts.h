// What decides whether steps become a scan, for importers and passes alike: how many are many, and which ops may be
// repeated.
#ifndef HYC_DIALECTS_HYC_STEPFACTS_H
#define HYC_DIALECTS_HYC_STEPFACTS_H

#include "dialects/Hyc/HycDialect.h"

namespace hyc {

/// Fewer steps stay written out: they cost little, and fuse with what is around them.
inline constexpr int64_t kFewSteps = 16;

/// Whether an op draws random numbers. In a scan every step would draw the same.
inline bool drawsRandomNumbers(mlir::Operation *op) {
  auto attention = llvm::dyn_cast<AttentionOp>(op);
  return llvm::isa<DropoutOp>(op) || (attention && attention.getDropout());
}

} // namespace hyc

#endif // HYC_DIALECTS_HYC_STEPFACTS_H
