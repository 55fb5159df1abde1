// Patterns over a module's own functions: a module inside is another model, with passes of its own.
#ifndef HYC_TRANSFORMS_MODEL_REWRITEFUNCTIONS_H
#define HYC_TRANSFORMS_MODEL_REWRITEFUNCTIONS_H

#include "dialects/Hyc/HycDialect.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace hyc {

/// Applies the patterns to every function until none fits. Constants stay where they are used: stages cut a function
/// between its layers.
inline llvm::LogicalResult rewriteFunctions(mlir::ModuleOp module, mlir::RewritePatternSet patterns) {
  mlir::FrozenRewritePatternSet frozen(std::move(patterns));
  auto config = mlir::GreedyRewriteConfig().enableConstantCSE(false);
  for (auto function : module.getOps<FuncOp>())
    if (failed(mlir::applyPatternsGreedily(function, frozen, config)))
      return llvm::failure();
  return llvm::success();
}

} // namespace hyc

#endif // HYC_TRANSFORMS_MODEL_REWRITEFUNCTIONS_H
