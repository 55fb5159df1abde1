// Removal of what a recognised pattern leaves behind.
#ifndef HYC_TRANSFORMS_MODEL_DEADOPS_H
#define HYC_TRANSFORMS_MODEL_DEADOPS_H

#include "dialects/Hyc/HycDialect.h"
#include "llvm/ADT/STLExtras.h"

namespace hyc {

/// Erases the ops of every function whose results nobody reads and that change nothing.
inline void eraseDeadOps(mlir::ModuleOp module) {
  for (auto function : module.getOps<FuncOp>())
    for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
      if (mlir::isOpTriviallyDead(&op))
        op.erase();
}

} // namespace hyc

#endif // HYC_TRANSFORMS_MODEL_DEADOPS_H
