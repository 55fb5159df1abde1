// A model built from the text of a config.json.
#ifndef HYC_TEST_UNIT_IMPORT_CONFIGTESTING_H
#define HYC_TEST_UNIT_IMPORT_CONFIGTESTING_H

#include "OnnxTesting.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/HuggingFace/Import.h"
#include <fstream>
#include <optional>

namespace hyc {

struct Built {
  std::unique_ptr<mlir::MLIRContext> context = std::make_unique<mlir::MLIRContext>();
  std::string messages;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  Built() {
    context->disableMultithreading();
    context->loadDialect<HycDialect>();
    context->getDiagEngine().registerHandler(
        [this](mlir::Diagnostic &diagnostic) { messages += diagnostic.str() + "\n"; });
  }
};

/// The model that `text` describes, of 2 samples, or nothing and messages. Without `sequence` it is what the config
/// says.
inline Built build(const std::string &text, std::optional<int64_t> sequence = std::nullopt) {
  Built built;
  onnx::TemporaryFolder folder;
  std::string path = (folder / "config.json").string();
  std::ofstream(path) << text;
  HuggingFaceOptions options;
  options.batch = 2;
  options.sequence = sequence;
  auto module = importHuggingFace(*built.context, path, options);
  if (succeeded(module))
    built.module = std::move(*module);
  return built;
}

} // namespace hyc

#endif // HYC_TEST_UNIT_IMPORT_CONFIGTESTING_H
