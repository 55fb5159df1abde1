// hyc-opt: runs any pass of hyc on the text of any phase. A file named *.onnx or *.pt2 is imported first.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Import/ONNX/Import.h"
#include "hyc/Import/Text/ImportText.h"
#include "hyc/Import/TorchExport/Import.h"
#include "hyc/Pipelines/Pipelines.h"
#include "hyc/Support/InputFile.h"
#include "hyc/Target/Cpp.h"
#include "hyc/Transforms/Local/Passes.h"
#include "hyc/Transforms/Model/Passes.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "hyc/Transforms/Rank/Passes.h"
#include "hyc/Transforms/Train/Passes.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

static llvm::cl::opt<std::string> inputName(llvm::cl::Positional, llvm::cl::desc("<input file>"), llvm::cl::init("-"));
static llvm::cl::opt<std::string> outputName("o", llvm::cl::desc("Where the text goes"), llvm::cl::value_desc("FILE"),
                                             llvm::cl::init("-"));
static llvm::cl::list<std::string> dims("dim", llvm::cl::value_desc("NAME=N"),
                                        llvm::cl::desc("Size of a symbolic dimension of a model file"));
static llvm::cl::opt<int64_t> batch("batch", llvm::cl::init(0), llvm::cl::value_desc("N"),
                                    llvm::cl::desc("Size of the symbolic first dimension of a model file's inputs"));
static llvm::cl::opt<hyc::WeightSource>
    weights("weights", llvm::cl::init(hyc::WeightSource::Read),
            llvm::cl::desc("Where a model file's weights come from:"),
            llvm::cl::values(clEnumValN(hyc::WeightSource::Read, "read", "the model"),
                             clEnumValN(hyc::WeightSource::InitialiseMissing, "initialise-missing",
                                        "the model, and a rule for those that are not there"),
                             clEnumValN(hyc::WeightSource::Initialise, "initialise", "a rule")));

static llvm::cl::opt<hyc::ModelMode>
    mode("mode", llvm::cl::init(hyc::ModelMode::AsExported), llvm::cl::desc("What a model file's batch norm goes by:"),
         llvm::cl::values(clEnumValN(hyc::ModelMode::AsExported, "exported", "as the file has it"),
                          clEnumValN(hyc::ModelMode::Train, "train", "the batch's own statistics"),
                          clEnumValN(hyc::ModelMode::Evaluate, "evaluate", "its running averages")));

static llvm::Expected<hyc::ImportOptions> readImportOptions() {
  hyc::ImportOptions options;
  options.mode = mode;
  options.weights = weights;
  if (batch > 0)
    options.batch = batch;
  for (llvm::StringRef dim : dims) {
    auto [name, size] = dim.split('=');
    if (size.getAsInteger(10, options.dims[name]) || options.dims[name] < 1)
      return hyc::usageError("--dim " + dim + ": expected NAME=N with N at least 1");
  }
  return options;
}

/// Diagnostics have said it already.
static llvm::Error dataError() { return hyc::makeError(hyc::ExitCode::Data, ""); }

/// The module's text, with locations, so that diagnostics of later passes name the model's nodes.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> importToText(mlir::DialectRegistry &registry,
                                                                        llvm::StringRef path) {
  llvm::Expected<hyc::ImportOptions> options = readImportOptions();
  if (!options)
    return options.takeError();
  if (std::error_code error = llvm::sys::fs::access(path, llvm::sys::fs::AccessMode::Exist))
    return hyc::ioError("cannot read '" + path + "'", error);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  auto module = (path.ends_with(".pt2") ? hyc::importTorchExport : hyc::importOnnx)(context, path, *options);
  if (mlir::failed(module))
    return dataError();
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*module)->print(stream, mlir::OpPrintingFlags().enableDebugInfo());
  return llvm::MemoryBuffer::getMemBufferCopy(text, path);
}

/// What MLIR's parser may see: it recurses once per bracket. Standard input is trusted to be a pass's output.
static llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readText(mlir::DialectRegistry &registry,
                                                                    llvm::StringRef path) {
  if (path == "-") {
    auto buffer = llvm::MemoryBuffer::getSTDIN();
    if (!buffer)
      return hyc::ioError("cannot read standard input", buffer.getError());
    return std::move(*buffer);
  }
  if (path.ends_with(".onnx") || path.ends_with(".pt2"))
    return importToText(registry, path);
  auto buffer = hyc::openInputFile(path, hyc::kMaxTextBytes, /*endsWithNul=*/true);
  if (!buffer)
    return llvm::handleErrors(buffer.takeError(), [&](const hyc::DriverError &error) {
      return hyc::makeError(error.getCode(), path + ": " + error.getMessage());
    });
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  if (mlir::failed(hyc::checkModuleText(context, (*buffer)->getBuffer(), path)))
    return dataError();
  return buffer;
}

/// The name of a pass that there is not, among flags. The command line would take "--hyc-…" for "-h", and show help.
static llvm::StringRef findUnknownPass(llvm::ArrayRef<char *> arguments) {
  for (llvm::StringRef argument : arguments) {
    llvm::StringRef name = argument.ltrim('-').split('=').first;
    if (argument.starts_with("-") && name.starts_with("hyc-") && !mlir::PassInfo::lookup(name) &&
        !mlir::PassPipelineInfo::lookup(name))
      return name;
  }
  return {};
}

/// Whether the passes that were asked for can be built; what is wrong with them has been told.
static bool isPipeline(const mlir::MlirOptMainConfig &config, mlir::DialectRegistry &registry) {
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler handler(&context, [](mlir::Diagnostic &diagnostic) {
    llvm::errs() << "hyc-opt: error: " << llvm::StringRef(diagnostic.str()).rtrim() << "\n";
    return mlir::success();
  });
  mlir::PassManager passes(&context);
  return mlir::succeeded(config.setupPassPipeline(passes));
}

static void registerAll(mlir::DialectRegistry &registry) {
  registry.insert<hyc::HycDialect, hyc::dist::DistDialect, hyc::rank::RankDialect>();
  mlir::registerTransformsPasses();
  hyc::registerModelPasses();
  hyc::registerEmitCppPass();
  hyc::registerRankPasses();
  hyc::registerTrainPasses();
  hyc::registerPlanPasses();
  hyc::registerLocalPasses();
  hyc::registerPipelines();
}

static llvm::Error run(mlir::DialectRegistry &registry, const mlir::MlirOptMainConfig &config) {
  if (!isPipeline(config, registry))
    return hyc::makeError(hyc::ExitCode::Usage, "");
  if (outputName != "-" && llvm::sys::fs::equivalent(inputName, outputName))
    return hyc::usageError("-o " + outputName + " is the input; name another file for the output");
  auto buffer = readText(registry, inputName);
  if (!buffer)
    return buffer.takeError();
  std::string text;
  llvm::raw_string_ostream stream(text);
  bool isGood = mlir::succeeded(mlir::MlirOptMain(stream, std::move(*buffer), registry, config));
  if (outputName == "-") { // of what is split, the good parts as well
    llvm::outs() << text;
    llvm::outs().flush();
    std::error_code error = llvm::outs().error();
    llvm::outs().clear_error();
    if (isGood && error)
      return hyc::ioError("cannot write to standard output", error);
  }
  if (!isGood)
    return dataError();
  if (outputName == "-")
    return llvm::Error::success();
  // Aside, and renamed: all or nothing.
  llvm::Error written = llvm::writeToOutput(outputName, [&](llvm::raw_ostream &os) {
    os << text;
    return llvm::Error::success();
  });
  return llvm::handleErrors(std::move(written), [](const llvm::ErrorInfoBase &error) {
    return hyc::makeError(hyc::ExitCode::Io, "cannot write '" + outputName + "': " + error.message());
  });
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registerAll(registry);
  if (llvm::StringRef unknown = findUnknownPass(llvm::ArrayRef(argv, argc).drop_front()); !unknown.empty()) {
    llvm::errs() << "hyc-opt: error: there is no pass --" << unknown << "; --help lists all\n";
    return static_cast<int>(hyc::ExitCode::Usage);
  }
  std::string header = mlir::registerCLIOptions("hyc graph optimizer\n", registry);
  if (!llvm::cl::ParseCommandLineOptions(argc, argv, header, &llvm::errs()))
    return static_cast<int>(hyc::ExitCode::Usage);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::failed(mlir::MlirOptMain(argc, argv, inputName, outputName, registry));
  int status = 0;
  llvm::handleAllErrors(run(registry, config), [&](const hyc::DriverError &error) {
    if (!error.getMessage().empty())
      llvm::errs() << "hyc-opt: error: " << error.getMessage() << "\n";
    status = static_cast<int>(error.getCode());
  });
  return status;
}
