// From a random graph to a module of a later phase, in the test's own context.
#ifndef HYC_TEST_EQUIVALENCE_TRAINEDMODULE_H
#define HYC_TEST_EQUIVALENCE_TRAINEDMODULE_H

#include "hyc/Import/ONNX/Import.h"
#include "hyc/Pipelines/Pipelines.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>
#include <optional>
#include <string>

namespace hyc::equivalence {

/// Tokens of a sample of the models in test/models that are folders.
inline constexpr int64_t kFolderSequence = 16;

/// A module and the diagnostics of everything done to it.
class TrainedModule {
public:
  /// Parses `text` and runs `pipeline` ("hyc-differentiate,hyc-attach-optimizer") on it.
  TrainedModule(const std::string &text, const std::string &pipeline);
  /// Imports an ONNX file, a torch.export archive or a Hugging Face config.json for a batch of `samples`, the latter of
  /// `sequence` tokens, maybe with an input that tells tokens from padding.
  TrainedModule(const std::string &path, int64_t samples, hyc::ModelMode mode = hyc::ModelMode::AsExported,
                std::optional<int64_t> sequence = kFolderSequence, bool paddingMask = false);
  ~TrainedModule();

  /// Runs more passes.
  bool transform(const std::string &pipeline);
  /// Runs the passes that lead to `phase` from the one before, and its check.
  bool enter(hyc::Phase phase, const hyc::Plan &options);

  explicit operator bool() const { return isGood; }
  mlir::ModuleOp get() const { return *module; }
  const std::string &diagnostics() const { return messages; }
  std::string print() const;

private:
  TrainedModule();

  std::unique_ptr<mlir::MLIRContext> context;
  std::string messages;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  bool isGood = false;
};

} // namespace hyc::equivalence

#endif // HYC_TEST_EQUIVALENCE_TRAINEDMODULE_H
