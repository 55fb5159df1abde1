// Import, and the equation between the model's batch and the command line.
#include "Model/ModelInput.h"

#include "Model/ModelTypes.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Driver/OptionChecks.h"
#include "hyc/Import/Checkpoint/Checkpoint.h"
#include "hyc/Import/HuggingFace/Import.h"
#include "hyc/Import/ONNX/Import.h"
#include "hyc/Import/Text/ImportText.h"
#include "hyc/Import/TorchExport/Import.h"
#include "hyc/Pipelines/Pipelines.h"
#include "hyc/Support/InputFile.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace hyc;
using llvm::Error;
using llvm::Expected;

static Expected<ImportOptions> importOptions(const CompileOptions &options, bool forEvaluation) {
  ImportOptions result;
  for (const std::string &text : *options.dims) {
    Expected<DimSizes> dim = parseDim(text);
    if (!dim)
      return dim.takeError();
    result.dims[dim->name] = dim->sizes.back();
  }
  result.batch = std::max<int64_t>(*options.microBatch, 1) * *options.dp;
  if (*options.weights != "read") // what a checkpoint has replaces the rule
    result.weights =
        *options.weights == "initialise-missing" ? WeightSource::InitialiseMissing : WeightSource::Initialise;
  const bool evaluates = *options.mode == "evaluate" || forEvaluation;
  result.mode = evaluates ? ModelMode::Evaluate : *options.mode == "train" ? ModelMode::Train : ModelMode::AsExported;
  result.keepsMerged = *options.keepMerged;
  return result;
}

/// The model fixes its batch, and a ds_config says another.
static Error configBatchError(const CompileOptions &options, StringRef input, int64_t batch) {
  const Setting<int64_t> &micro = options.microBatch;
  return makeError(ExitCode::Data, "input \"" + input + "\" has a batch of " + Twine(batch) + ", but " +
                                       options.globalBatch.getSource() + " gives a micro-batch of " + Twine(*micro) +
                                       " (" + micro.getSource() + "): batch = micro-batch × dp, and dp is " +
                                       Twine(*options.dp));
}

/// Sizes of a config.json's two dimensions.
static Expected<HuggingFaceOptions> configOptions(const CompileOptions &options) {
  HuggingFaceOptions result;
  result.paddingMask = *options.paddingMask;
  result.batch = std::max<int64_t>(*options.microBatch, 1) * *options.dp;
  if (*options.weights != "read")
    result.weights =
        *options.weights == "initialise-missing" ? FolderWeights::InitialiseMissing : FolderWeights::Initialise;
  for (const std::string &text : *options.dims) {
    Expected<DimSizes> dim = parseDim(text);
    if (!dim)
      return dim.takeError();
    result.saysCausal |= dim->sizes.size() > 1;
    if (dim->name == "batch")
      result.batch = dim->sizes.back();
    else if (dim->name == "seq")
      result.sequence = dim->sizes.back();
    else
      return usageError("--dim names \"" + dim->name + "\"; the dimensions of a config.json are batch and seq");
  }
  return result;
}

/// Reads the file by the kind that its name says. `names`: see importHuggingFace; nothing of other kinds.
static Expected<OwningOpRef<ModuleOp>> importModel(MLIRContext &context, const DiagnosticCollector &diagnostics,
                                                   const CompileOptions &options, StringRef path, bool forEvaluation,
                                                   StartOptions *names = nullptr) {
  FailureOr<OwningOpRef<ModuleOp>> module = failure();
  if (*options.paddingMask && !path.ends_with(".json"))
    return usageError("--padding-mask is of Hugging Face folders; '" + options.input +
                      "' has the inputs that it was written with");
  if (path.ends_with(".onnx") || path.ends_with(".pt2")) {
    Expected<ImportOptions> import = importOptions(options, forEvaluation);
    if (!import)
      return import.takeError();
    module = (path.ends_with(".pt2") ? importTorchExport : importOnnx)(context, path, *import);
  } else if (path.ends_with(".json")) {
    Expected<HuggingFaceOptions> import = configOptions(options);
    if (!import)
      return import.takeError();
    module = importHuggingFace(context, path, *import, names);
  } else if (path.ends_with(".mlir")) {
    if (*options.mode != "exported")
      return usageError("--mode says how a model file is read; '" + options.input + "' is text, and is as it is");
    if (!options.dims->empty())
      return usageError("--dim binds symbolic dimensions of a model; '" + options.input + "' has none");
    module = importText(context, path);
  } else {
    return usageError("'" + options.input + "' is neither .onnx nor .pt2 nor .mlir nor a config.json");
  }
  if (failed(module))
    return diagnostics.failure(ExitCode::Data);
  if (std::string types = computeInF32(**module); !types.empty() && names) // told once, and not of its evaluation again
    emitRemark((*module)->getLoc()) << "parameters are " << types
                                    << ", of which hyc keeps f32, and computes in what --precision says";
  readByTypesOfData(**module);
  return std::move(*module);
}

Error hyc::addEvaluation(ModuleOp module, const DiagnosticCollector &diagnostics, const CompileOptions &options) {
  if (evaluationOf(module))
    return Error::success();
  StringRef path = options.input;
  // A file may hold both forms of what trains and evaluates in different ways, such as batch normalisation.
  OwningOpRef<ModuleOp> evaluation;
  if (path.ends_with(".onnx") || path.ends_with(".pt2")) {
    Expected<OwningOpRef<ModuleOp>> read =
        importModel(*module.getContext(), diagnostics, options, path, /*forEvaluation=*/true);
    if (!read)
      return read.takeError();
    evaluation = std::move(*read);
  } else {
    evaluation = module.clone();
  }
  (*evaluation)->setAttr(kEntryAttribute, StringAttr::get(module.getContext(), kEvaluate));
  if (module.lookupSymbol(kEvaluate))
    return makeError(ExitCode::Data,
                     options.input + ": has a symbol @" + kEvaluate +
                         ", which --entry train,evaluate needs for itself; compile it with --entry train");
  evaluation->setSymName(kEvaluate);
  module.push_back(evaluation.release());
  return Error::success();
}

/// Replaces the initial values by those of `--weights PATH`.
static Error readCheckpoint(ModuleOp module, const DiagnosticCollector &diagnostics, const CompileOptions &options,
                            const StartOptions &names) {
  Expected<Checkpoint> checkpoint = Checkpoint::open(*options.weights);
  if (!checkpoint)
    return makeError(ExitCode::Data, "--weights: " + llvm::toString(checkpoint.takeError()));
  return failed(startFromCheckpoint(module, *checkpoint, names)) ? diagnostics.failure(ExitCode::Data)
                                                                 : Error::success();
}

/// The text of a Hugging Face folder's config.json, which goes with saved weights; nothing of other models.
static std::string readConfigText(StringRef path) {
  if (!path.ends_with(".json"))
    return "";
  auto buffer = openInputFile(path, kMaxTextBytes);
  if (buffer)
    return (*buffer)->getBuffer().str();
  llvm::consumeError(buffer.takeError());
  return "";
}

/// Binds the micro-batch to the model's first dimension.
static Error bindBatch(ModelInput &input, const CompileOptions &options) {
  auto entry = input.module->lookupSymbol<FuncOp>(kTrain);
  if (!entry)
    return makeError(ExitCode::Data, options.input + ": has no hyc.func @train, the entry of a phase-1 module");
  if (entry.getNumArguments() == 0)
    return makeError(ExitCode::Data, options.input + ": the model has no inputs");
  int64_t dp = *options.dp;
  input.microBatch = *options.microBatch;
  for (auto [index, argument] : llvm::enumerate(entry.getArguments())) {
    auto type = cast<RankedTensorType>(argument.getType());
    auto nameAttr = entry.getArgAttrOfType<StringAttr>(index, kInput);
    std::string name = nameAttr ? nameAttr.str() : "#" + std::to_string(index);
    if (type.getRank() == 0)
      return makeError(ExitCode::Data,
                       options.input + ": input \"" + name + "\" is a scalar, expected a batch of samples");
    int64_t batch = type.getDimSize(0);
    if (input.microBatch == 0 && batch % dp == 0)
      input.microBatch = batch / dp;
    if (input.microBatch * dp != batch && options.globalBatch.getOrigin() == Origin::Config)
      return configBatchError(options, name, batch);
    if (input.microBatch * dp != batch)
      return usageError(
          "input \"" + name + "\" has a batch of " + Twine(batch) +
          ", but batch = --micro-batch × --dp (and global batch = --micro-batch × --grad-accum × --dp): " +
          (batch % dp == 0 ? "with --dp " + Twine(dp) + " it needs --micro-batch " + Twine(batch / dp)
                           : "--dp must divide it, and is " + Twine(dp)) +
          "; the export has fixed this batch: for another one export the model with a batch that varies, or with that "
          "one");
  }
  return Error::success();
}

Expected<ModelInput> hyc::readModel(MLIRContext &context, const DiagnosticCollector &diagnostics,
                                    const CompileOptions &options) {
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(options.input, status))
    return ioError("cannot read '" + options.input + "'", error);
  SmallString<128> path(options.input);
  if (llvm::sys::fs::is_directory(status)) {
    llvm::sys::path::append(path, "config.json");
    if (!llvm::sys::fs::exists(path))
      return usageError(
          "'" + options.input +
          "' is a folder without a config.json; expected a file .onnx or .pt2, .mlir text, or a model's folder");
  }
  StartOptions names;
  Expected<OwningOpRef<ModuleOp>> module =
      importModel(context, diagnostics, options, path, options.evaluates(), &names);
  if (!module)
    return module.takeError();
  ModelInput result;
  result.module = std::move(*module);
  // What a person wrote is checked before any pass relies on it; an importer's work is hyc's own.
  PassManager verification(&context);
  buildVerification(Phase::Model, verification);
  if (StringRef(path).ends_with(".mlir") && failed(verification.run(*result.module)))
    return diagnostics.failure(ExitCode::Data);
  if (startsFromCheckpoint(options))
    if (Error error = readCheckpoint(*result.module, diagnostics, options, names))
      return error;
  result.configText = readConfigText(path);
  if (auto folder = (*result.module)->getAttrOfType<StringAttr>(kModelFolder))
    result.folder = folder.str();
  if (Error error = bindBatch(result, options))
    return error;
  return result;
}

/// What the largest size has of the parameters, a further one has, too: they are the same.
static Error shareParameters(ModuleOp largest, ModuleOp size, const std::string &what, const CompileOptions &options) {
  auto refuse = [&](StringRef name, const Twine &why) {
    return makeError(ExitCode::Data, options.input + ": parameter \"" + name + "\" " + why + " at " + what +
                                         ", but sizes share their parameters; give --dim one size, the largest");
  };
  auto spell = [](Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  };
  for (auto param : llvm::make_early_inc_range(size.getOps<ParamOp>())) {
    auto known = largest.lookupSymbol<ParamOp>(param.getSymName());
    if (!known)
      return refuse(param.getSymName(), "is there only");
    if (known.getTensorType() != param.getTensorType())
      return refuse(param.getSymName(), "is " + spell(known.getTensorType()) + ", and " + spell(param.getTensorType()));
    param.setInitAttr(known.getInitAttr());
  }
  for (auto param : largest.getOps<ParamOp>())
    if (!size.lookupSymbol<ParamOp>(param.getSymName()))
      return refuse(param.getSymName(), "is missing");
  return Error::success();
}

static DictionaryAttr sizeAttribute(MLIRContext *context, const DimSizes &dim, int64_t size) {
  Builder builder(context);
  return builder.getDictionaryAttr({builder.getNamedAttr("dim", builder.getStringAttr(dim.name)),
                                    builder.getNamedAttr("size", builder.getI64IntegerAttr(size))});
}

Error hyc::addSizes(ModuleOp module, const DiagnosticCollector &diagnostics, const CompileOptions &options) {
  Expected<std::optional<DimSizes>> several = severalSizes(options);
  if (!several || !*several)
    return several.takeError();
  const DimSizes &dim = **several;
  MLIRContext *context = module.getContext();
  module->setAttr(kSizeAttribute, sizeAttribute(context, dim, dim.sizes.back()));
  for (int64_t size : llvm::drop_end(dim.sizes)) {
    const std::string what = "--dim " + dim.spell(size);
    Expected<ModelInput> read = readModel(*context, diagnostics, atSize(options, dim, size));
    if (!read)
      return read.takeError();
    ModuleOp one = read->module.get();
    if (Error error = shareParameters(module, one, what, options))
      return error;
    // Such as the values that adapters start from.
    for (NamedAttribute attribute : module->getDiscardableAttrs())
      if (!one->hasAttr(attribute.getName()))
        one->setAttr(attribute.getName(), attribute.getValue());
    one->setAttr(kSizeAttribute, sizeAttribute(context, dim, size));
    std::string name = nameOfSize({dim.name, size});
    if (module.lookupSymbol(name))
      return makeError(ExitCode::Data, options.input + ": has a symbol @" + name + ", which " + what +
                                           " needs for itself; leave that size out");
    one.setSymName(name);
    module.push_back(read->module.release());
  }
  return Error::success();
}
