// Parsing and pass pipelines for the equivalence tests.
#include "TrainedModule.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/HuggingFace/Import.h"
#include "hyc/Import/TorchExport/Import.h"
#include "hyc/Transforms/Local/Passes.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "hyc/Transforms/Train/Passes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/raw_ostream.h"

using namespace hyc::equivalence;

static void registerPasses() {
  static const bool registered = [] {
    hyc::registerTrainPasses();
    hyc::registerPlanPasses();
    hyc::registerLocalPasses();
    return true;
  }();
  (void)registered;
}

TrainedModule::TrainedModule() : context(std::make_unique<mlir::MLIRContext>()) {
  registerPasses();
  context->disableMultithreading();
  context->printOpOnDiagnostic(false);
  context->loadDialect<hyc::HycDialect, hyc::dist::DistDialect>();
  context->getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      messages += "note: " + note.str() + "\n";
    return mlir::success();
  });
}

TrainedModule::TrainedModule(const std::string &text, const std::string &pipeline) : TrainedModule() {
  module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  isGood = module && transform(pipeline);
}

TrainedModule::TrainedModule(const std::string &path, int64_t samples, hyc::ModelMode mode,
                             std::optional<int64_t> sequence, bool paddingMask)
    : TrainedModule() {
  hyc::ImportOptions options;
  options.mode = mode;
  options.batch = samples;
  hyc::HuggingFaceOptions folder;
  folder.batch = samples;
  folder.sequence = sequence;
  folder.paddingMask = paddingMask;
  llvm::StringRef name = path;
  llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> imported =
      name.ends_with(".json")  ? hyc::importHuggingFace(*context, path, folder)
      : name.ends_with(".pt2") ? hyc::importTorchExport(*context, path, options)
                               : hyc::importOnnx(*context, path, options);
  if (succeeded(imported))
    module = std::move(*imported);
  isGood = static_cast<bool>(module);
}

TrainedModule::~TrainedModule() = default;

bool TrainedModule::enter(hyc::Phase phase, const hyc::Plan &options) {
  mlir::PassManager passes(context.get());
  hyc::buildPhase(phase, passes, options);
  hyc::buildVerification(phase, passes);
  isGood = isGood && succeeded(passes.run(*module));
  return isGood;
}

bool TrainedModule::transform(const std::string &pipeline) {
  mlir::PassManager passes(context.get());
  llvm::raw_string_ostream stream(messages);
  isGood = succeeded(mlir::parsePassPipeline(pipeline, passes, stream)) && succeeded(passes.run(*module));
  return isGood;
}

std::string TrainedModule::print() const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (module)
    mlir::ModuleOp(*module).print(stream);
  return text;
}
