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
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

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

static llvm::FailureOr<hyc::ImportOptions> readImportOptions() {
  hyc::ImportOptions options;
  options.mode = mode;
  options.weights = weights;
  if (batch > 0)
    options.batch = batch;
  for (llvm::StringRef dim : dims) {
    auto [name, size] = dim.split('=');
    if (size.getAsInteger(10, options.dims[name]) || options.dims[name] < 1) {
      llvm::errs() << "hyc-opt: --dim " << dim << ": expected NAME=N with N at least 1\n";
      return mlir::failure();
    }
  }
  return options;
}

/// The module's text, with locations, so that diagnostics of later passes name the model's nodes.
static llvm::FailureOr<std::string> importToText(mlir::DialectRegistry &registry, llvm::StringRef path) {
  llvm::FailureOr<hyc::ImportOptions> options = readImportOptions();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  if (mlir::failed(options))
    return mlir::failure();
  auto module = (path.ends_with(".pt2") ? hyc::importTorchExport : hyc::importOnnx)(context, path, *options);
  if (mlir::failed(module))
    return mlir::failure();
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*module)->print(stream, mlir::OpPrintingFlags().enableDebugInfo());
  return text;
}

/// Whether MLIR's parser may see a file: it recurses once per bracket. Standard input is trusted to be a pass's output.
static bool isSafeText(llvm::StringRef path) {
  if (path == "-")
    return true;
  auto buffer = hyc::openInputFile(path, hyc::kMaxTextBytes);
  if (!buffer) {
    llvm::errs() << path << ": " << llvm::toString(buffer.takeError()) << "\n";
    return false;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  return mlir::succeeded(hyc::checkModuleText(context, (*buffer)->getBuffer(), path));
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

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<hyc::HycDialect, hyc::dist::DistDialect, hyc::rank::RankDialect>();
  mlir::registerTransformsPasses();
  hyc::registerModelPasses();
  hyc::registerEmitCppPass();
  hyc::registerRankPasses();
  hyc::registerTrainPasses();
  hyc::registerPlanPasses();
  hyc::registerLocalPasses();
  hyc::registerPipelines();
  if (llvm::StringRef unknown = findUnknownPass(llvm::ArrayRef(argv, argc).drop_front()); !unknown.empty()) {
    llvm::errs() << "hyc-opt: error: there is no pass --" << unknown << "; --help lists all\n";
    return 64;
  }
  auto [input, output] = mlir::registerAndParseCLIOptions(argc, argv, "hyc graph optimizer\n", registry);
  if (llvm::StringRef name = input; !name.ends_with(".onnx") && !name.ends_with(".pt2"))
    return !isSafeText(input) || mlir::failed(mlir::MlirOptMain(argc, argv, input, output, registry));
  llvm::FailureOr<std::string> text = importToText(registry, input);
  if (mlir::failed(text))
    return 1;
  std::string error;
  std::unique_ptr<llvm::ToolOutputFile> file = mlir::openOutputFile(output, &error);
  if (!file) {
    llvm::errs() << error << "\n";
    return 1;
  }
  auto buffer = llvm::MemoryBuffer::getMemBuffer(*text, input);
  if (mlir::failed(
          mlir::MlirOptMain(file->os(), std::move(buffer), registry, mlir::MlirOptMainConfig::createFromCLOptions())))
    return 1;
  file->keep();
  return 0;
}
