// FreezeParameters: which parameters are trained, by patterns of their names.
#include "TrainingState.h"
#include "hyc/Support/NamePattern.h"
#include "hyc/Support/NearestName.h"
#include "hyc/Transforms/Train/Passes.h"

#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_FREEZEPARAMETERS
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {

/// Patterns of one option, and which of them have matched.
class NamePatterns {
public:
  NamePatterns(StringRef option, ArrayRef<std::string> texts) : option(option), texts(texts) {}

  LogicalResult compile(ModuleOp module) {
    for (const std::string &text : texts) {
      llvm::Expected<NamePattern> pattern = NamePattern::compile(text);
      if (!pattern)
        return module.emitError("--") << option << " pattern \"" << StringRef(text).take_front(100)
                                      << "\" is no regular expression: " << llvm::toString(pattern.takeError());
      patterns.push_back(std::move(*pattern));
    }
    matched.assign(patterns.size(), false);
    return success();
  }

  bool isEmpty() const { return patterns.empty(); }

  bool match(StringRef name) {
    bool any = false;
    for (auto [index, pattern] : llvm::enumerate(patterns))
      if (pattern.match(name))
        any = matched[index] = true;
    return any;
  }

  /// A pattern without a match is a misspelt one.
  LogicalResult checkAllMatched(ModuleOp module, ArrayRef<StringRef> names) const {
    for (auto [text, hasMatch] : llvm::zip_equal(texts, matched)) {
      if (hasMatch)
        continue;
      InFlightDiagnostic error = module.emitError("--") << option << " pattern \"" << text << "\" matches no parameter";
      if (!names.empty())
        error << "; the nearest is \"" << nearestName(text, names) << "\"";
      return error;
    }
    return success();
  }

private:
  StringRef option;
  ArrayRef<std::string> texts;
  std::vector<NamePattern> patterns;
  std::vector<bool> matched;
};

struct FreezeParameters : hyc::impl::FreezeParametersBase<FreezeParameters> {
  using FreezeParametersBase::FreezeParametersBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    NamePatterns trained("train", train), frozen("freeze", freeze);
    if (failed(trained.compile(module)) || failed(frozen.compile(module)))
      return signalPassFailure();
    auto params = llvm::to_vector(module.getOps<ParamOp>());
    auto names = llvm::map_to_vector(params, [](ParamOp param) { return param.getSymName(); });
    bool isAnyTrained = false, isAnyFrozen = false;
    for (ParamOp param : params) {
      bool isChosen = trained.match(param.getSymName()) || (trained.isEmpty() && !adapted);
      bool isExcluded = frozen.match(param.getSymName());
      if ((!isChosen || isExcluded) && !param.getFrozen()) {
        param.setFrozen(true);
        ++frozenParameters;
        isAnyFrozen = true;
      }
      isAnyTrained |= !param.getFrozen();
    }
    if (failed(trained.checkAllMatched(module, names)) || failed(frozen.checkAllMatched(module, names)))
      return signalPassFailure();
    if (!isAnyTrained && isAnyFrozen && !adapted) {
      module.emitError("--train and --freeze leave no parameter to train; expected at least one");
      return signalPassFailure();
    }
  }
};
} // namespace
