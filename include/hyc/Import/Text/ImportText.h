// Reads the text of a module, as hyc-opt and --emit print it.
//
// The surprise: the text is checked before MLIR's parser sees it. That parser recurses once per bracket and per
// operator of an affine map, its printer once per alias that an alias uses, and dimensions are multiplied without
// looking: nesting by the thousands or a product past 2^63 would crash them, and forty aliases that each use the one
// before twice never end.
#ifndef HYC_IMPORT_TEXT_IMPORTTEXT_H
#define HYC_IMPORT_TEXT_IMPORTTEXT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace hyc {

/// Deepest nesting of brackets that is read.
inline constexpr unsigned kMaxTextNesting = 100;
/// Most elements a tensor type may have.
inline constexpr int64_t kMaxTensorElements = int64_t(1) << 40;

/// Checks encoding, nesting (aliases written out included), the length of affine maps, and the sizes of tensor types.
/// What is wrong is a diagnostic with line and column in `name`.
llvm::LogicalResult checkModuleText(mlir::MLIRContext &context, llvm::StringRef text, llvm::StringRef name);

/// Reads a module from `path`. Its dialects are loaded in `context`. Ops without an id are given one. Sets the module's
/// `hyc.model_folder`, against which #hyc.file paths are resolved, to the text's own folder where the text does not
/// give one.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importText(mlir::MLIRContext &context, llvm::StringRef path);

} // namespace hyc

#endif // HYC_IMPORT_TEXT_IMPORTTEXT_H
