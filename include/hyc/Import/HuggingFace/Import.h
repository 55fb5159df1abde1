// Turns the config.json of a Hugging Face folder into a phase-1 module. GPT-2 is the one architecture known so far.
#ifndef HYC_IMPORT_HUGGINGFACE_IMPORT_H
#define HYC_IMPORT_HUGGINGFACE_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace hyc {

struct HuggingFaceOptions {
  int64_t batch = 1;
  std::optional<int64_t> sequence; ///< tokens of a sample; as many as the model has positions
};

/// Builds the model that `path`, a config.json, describes; its parameters start by the architecture's rule. What is wrong
/// is a diagnostic.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importHuggingFace(mlir::MLIRContext &context, llvm::StringRef path, const HuggingFaceOptions &options);

} // namespace hyc

#endif // HYC_IMPORT_HUGGINGFACE_IMPORT_H
