// What a program is for. A model trains, unless an entry says otherwise.
//
// A module that trains may hold a second one, @evaluate: the same model over the same parameters, as it is evaluated.
// Both go through the phases side by side, and become one program with two entries a stage.
#ifndef HYC_ANALYSIS_ENTRY_H
#define HYC_ANALYSIS_ENTRY_H

#include "dialects/Hyc/HycDialect.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace hyc {

/// Of the module.
inline constexpr llvm::StringLiteral kEntryAttribute = "hyc.entry", kEvaluate = "evaluate";

/// Whether the program tells how well the parameters do, and changes none: see hyc-enter-evaluation.
inline bool isEvaluation(mlir::ModuleOp module) {
  auto entry = module->getAttrOfType<mlir::StringAttr>(kEntryAttribute);
  return entry && entry.getValue() == kEvaluate;
}

/// The module inside that evaluates what this one trains; null if there is none.
inline mlir::ModuleOp evaluationOf(mlir::ModuleOp module) {
  for (auto inside : module.getOps<mlir::ModuleOp>())
    if (isEvaluation(inside))
      return inside;
  return {};
}

/// Visits what is in the module's own functions, and not in those of a module inside.
template <typename Callback> void walkFunctions(mlir::ModuleOp module, Callback callback) {
  for (auto function : module.getOps<FuncOp>())
    function.walk(callback);
}

} // namespace hyc

#endif // HYC_ANALYSIS_ENTRY_H
