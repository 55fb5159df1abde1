// ModelInput: the model as a phase-1 module, its batch bound to the samples of one global micro-batch.
#ifndef HYC_LIB_DRIVER_MODEL_MODELINPUT_H
#define HYC_LIB_DRIVER_MODEL_MODELINPUT_H

#include "Model/DiagnosticCollector.h"
#include "hyc/Plan/CompileOptions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace hyc {

struct ModelInput {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  int64_t microBatch = 1; ///< samples of one micro-batch on one rank
  std::string folder;     ///< against which #hyc.file paths are resolved
  std::string configText; ///< of a Hugging Face folder
};

/// Reads .onnx or .mlir. A symbolic batch becomes micro-batch × dp; one that the model fixes must be that, and gives
/// the micro-batch where the command line does not.
llvm::Expected<ModelInput> readModel(mlir::MLIRContext &context, const DiagnosticCollector &diagnostics,
                                     const CompileOptions &options);

/// Adds the model as it is evaluated, beside the one that trains; nothing where the module has it already.
llvm::Error addEvaluation(mlir::ModuleOp module, const DiagnosticCollector &diagnostics, const CompileOptions &options);

/// Adds the model as it trains at the further sizes of the `--dim` that has several, over the parameters of the
/// largest, which the module is; nothing where none has. Data errors where a parameter's shape follows the dimension.
llvm::Error addSizes(mlir::ModuleOp module, const DiagnosticCollector &diagnostics, const CompileOptions &options);

} // namespace hyc

#endif // HYC_LIB_DRIVER_MODEL_MODELINPUT_H
