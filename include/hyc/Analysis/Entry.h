// What a program is for. A model trains, unless an entry says otherwise.
#ifndef HYC_ANALYSIS_ENTRY_H
#define HYC_ANALYSIS_ENTRY_H

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

} // namespace hyc

#endif // HYC_ANALYSIS_ENTRY_H
