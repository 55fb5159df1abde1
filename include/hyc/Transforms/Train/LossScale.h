// What a loss scale is over, which modules of several sizes have in common: they share the state and its update.
#ifndef HYC_TRANSFORMS_TRAIN_LOSSSCALE_H
#define HYC_TRANSFORMS_TRAIN_LOSSSCALE_H

#include "dialects/Hyc/HycDialect.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace hyc {

/// Of the state: what the loss is divided by before it is scaled.
inline constexpr llvm::StringLiteral kNormalizer = "hyc.normalizer";

/// What hyc-scale-loss has found for the module; 0 where its loss is not scaled.
inline double normalizerOf(mlir::ModuleOp module) {
  for (auto state : module.getOps<StateOp>())
    if (auto normalizer = state->getAttrOfType<mlir::FloatAttr>(kNormalizer))
      return normalizer.getValueAsDouble();
  return 0;
}

} // namespace hyc

#endif // HYC_TRANSFORMS_TRAIN_LOSSSCALE_H
