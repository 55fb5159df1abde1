// Turns an ONNX file into a phase-1 module: `hyc.param` symbols and one function over static tensors, written with the
// plain ops that the exporter chose. Recognising attention, gelu and norms in them is left to lib/Transforms/Model.
#ifndef HYC_IMPORT_ONNX_IMPORT_H
#define HYC_IMPORT_ONNX_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include <optional>
#include <string>

namespace hyc {

/// Where the parameters' first values come from.
enum class WeightSource {
  Read,              ///< the model; it is an error if they are not there
  InitialiseMissing, ///< the model, and a rule for those that are not there
  Initialise         ///< a rule for all
};

/// How a model runs that differs between training and evaluation.
enum class ModelMode {
  AsExported, ///< as the file has it
  Train,      ///< batch norm by the batch's own statistics, whose running averages are kept
  Evaluate    ///< batch norm by its running averages; buffers keep their values
};

struct ImportOptions {
  /// Sizes for the model's symbolic dimensions, by name.
  llvm::StringMap<int64_t> dims;
  /// The size of a symbolic first dimension of inputs that `dims` does not bind.
  std::optional<int64_t> batch;
  /// Files, each with one tensor in the format's own encoding (TensorProto), by the name of an input: what the model
  /// needs to be known when compiling, such as shapes and axes. Such an input is a constant, not an argument.
  llvm::StringMap<std::string> inputValues;
  WeightSource weights = WeightSource::Read;
  /// The standard deviation of the rule for tensors of two dimensions or more (GPT-2's); norm scales start at 1,
  /// vectors that are added at 0.
  double initialStddev = 0.02;
  ModelMode mode = ModelMode::AsExported;
  /// A tensor of equal elements that several modules read is one parameter. Otherwise it is one for each of them:
  /// exporters merge what is equal when they write it, such as all norms' scales of 1.
  bool keepsMerged = false;
};

/// Imports `path`. What is wrong with it is reported as diagnostics, all of it where that is possible.
///
/// The function's arguments carry `hyc.input = NAME` and its results `hyc.output = NAME`, with the model's names. Paths
/// in `#hyc.file` are relative to the module's attribute `hyc.model_folder`, which is as the user gave it in `path`.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                                              const ImportOptions &options = {});

} // namespace hyc

#endif // HYC_IMPORT_ONNX_IMPORT_H
