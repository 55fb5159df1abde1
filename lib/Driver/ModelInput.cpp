// Import, and the equation between the model's batch and the command line.
#include "ModelInput.h"

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/ONNX/Import.h"
#include "hyc/Import/Text/ImportText.h"
#include "hyc/Pipelines/Pipelines.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace hyc;
using llvm::Error;
using llvm::Expected;

static Expected<ImportOptions> importOptions(const CompileOptions &options) {
  ImportOptions result;
  for (const std::string &text : options.dims) {
    Expected<std::pair<std::string, int64_t>> dim = parseDim(text);
    if (!dim)
      return dim.takeError();
    result.dims[dim->first] = dim->second;
  }
  result.batch = std::max<int64_t>(*options.microBatch, 1) * *options.dp;
  if (options.weights != "read")
    result.weights = options.weights == "initialise" ? WeightSource::Initialise : WeightSource::InitialiseMissing;
  return result;
}

/// The model fixes its batch, and a ds_config says another.
static Error configBatchError(const CompileOptions &options, StringRef input, int64_t batch) {
  const Setting<int64_t> &micro = options.microBatch;
  return makeError(ExitCode::Data,
                   "input \"" + input + "\" has a batch of " + Twine(batch) + ", but " +
                       options.trainBatch.getSource() + " gives a micro-batch of " + Twine(*micro) + " (" +
                       micro.getSource() + "): batch = micro-batch × dp, and dp is " + Twine(*options.dp));
}

/// Binds the micro-batch to the model's first dimension.
static Error bindBatch(ModelInput &input, const CompileOptions &options) {
  auto entry = input.module->lookupSymbol<FuncOp>("train");
  if (!entry)
    return makeError(ExitCode::Data, options.input + ": has no hyc.func @train, the entry of a phase-1 module");
  if (entry.getNumArguments() == 0)
    return makeError(ExitCode::Data, options.input + ": the model has no inputs");
  int64_t dp = *options.dp;
  input.microBatch = *options.microBatch;
  for (auto [index, argument] : llvm::enumerate(entry.getArguments())) {
    auto type = cast<RankedTensorType>(argument.getType());
    auto nameAttr = entry.getArgAttrOfType<StringAttr>(index, "hyc.input");
    std::string name = nameAttr ? nameAttr.str() : "#" + std::to_string(index);
    if (type.getRank() == 0)
      return makeError(ExitCode::Data,
                       options.input + ": input \"" + name + "\" is a scalar, expected a batch of samples");
    int64_t batch = type.getDimSize(0);
    if (type.getRank() > 1)
      input.sequence = std::max(input.sequence, type.getDimSize(1));
    if (input.microBatch == 0 && batch % dp == 0)
      input.microBatch = batch / dp;
    if (input.microBatch * dp != batch && options.trainBatch.getOrigin() == Origin::Config)
      return configBatchError(options, name, batch);
    if (input.microBatch * dp != batch)
      return usageError(
          "input \"" + name + "\" has a batch of " + Twine(batch) +
          ", but batch = --micro-batch × --dp (and global batch = --micro-batch × --grad-accum × --dp): " +
          (batch % dp == 0 ? "with --dp " + Twine(dp) + " it needs --micro-batch " + Twine(batch / dp)
                           : "--dp must divide it, and is " + Twine(dp)));
  }
  return Error::success();
}

Expected<ModelInput> hyc::readModel(MLIRContext &context, const DiagnosticPrinter &diagnostics,
                                    const CompileOptions &options) {
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(options.input, status))
    return ioError("cannot read '" + options.input + "'", error);
  if (llvm::sys::fs::is_directory(status))
    return usageError("'" + options.input + "' is a folder; expected an .onnx file, or .mlir text");
  StringRef path = options.input;
  bool isText = path.ends_with(".mlir");
  if (!isText && !path.ends_with(".onnx"))
    return usageError("'" + options.input + "' is neither .onnx nor .mlir");
  Expected<ImportOptions> import = importOptions(options);
  if (!import)
    return import.takeError();
  if (isText && !options.dims.empty())
    return usageError("--dim binds symbolic dimensions of an ONNX model; '" + options.input + "' has none");
  auto module = isText ? importText(context, path) : importOnnx(context, path, *import);
  if (failed(module))
    return diagnostics.failure(ExitCode::Data);
  ModelInput result;
  result.module = std::move(*module);
  // What a person wrote is checked before any pass relies on it; an importer's work is hyc's own.
  PassManager verification(&context);
  buildVerification(Phase::Model, verification);
  if (isText && failed(verification.run(*result.module)))
    return diagnostics.failure(ExitCode::Data);
  if (auto folder = (*result.module)->getAttrOfType<StringAttr>("hyc.model_folder"))
    result.folder = folder.str();
  if (Error error = bindBatch(result, options))
    return error;
  return result;
}
