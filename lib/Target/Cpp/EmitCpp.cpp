// hyc-emit-cpp: emitPrograms as a pass, so that hyc-opt can go all the way to source text.
#include "hyc/Target/Cpp.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

namespace {

struct EmitCpp : PassWrapper<EmitCpp, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(EmitCpp)
  EmitCpp() = default;
  EmitCpp(const EmitCpp &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "hyc-emit-cpp"; }
  StringRef getDescription() const override {
    return "Writes the C++ of rank programs into a folder; the module stays as it is";
  }

  void runOnOperation() override {
    std::map<std::string, std::string> files;
    hyc::CppOptions options;
    options.name = name;
    options.architectures.assign(gpus.begin(), gpus.end());
    if (failed(hyc::emitPrograms(getOperation(), options, files)))
      return signalPassFailure();
    if (std::error_code error = llvm::sys::fs::create_directories(folder)) {
      getOperation().emitError("cannot create the folder ") << folder << ": " << error.message();
      return signalPassFailure();
    }
    for (const auto &[file, text] : files) {
      std::string error;
      SmallString<128> path(folder);
      llvm::sys::path::append(path, file);
      auto output = openOutputFile(path, &error);
      if (!output) {
        getOperation().emitError() << error;
        return signalPassFailure();
      }
      output->os() << text;
      output->keep();
    }
  }

  Option<std::string> folder{*this, "folder", llvm::cl::desc("where the files are written"), llvm::cl::init("src")};
  ListOption<int64_t> gpus{*this, "gpus", llvm::cl::desc("architectures of GPUs, as in 90; none: for CPUs")};
  Option<std::string> name{*this, "name", llvm::cl::desc("name of the job"), llvm::cl::init("model")};
};

} // namespace

void hyc::registerEmitCppPass() { PassRegistration<EmitCpp>(); }
