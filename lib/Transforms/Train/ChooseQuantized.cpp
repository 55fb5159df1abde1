// ChooseQuantized: which frozen weights are kept as codes.
#include "LinearLayers.h"
#include "TrainingState.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_CHOOSEQUANTIZED
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

/// "20x4x5"
static std::string spell(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, "x");
  return text;
}

namespace {
struct ChooseQuantized : hyc::impl::ChooseQuantizedBase<ChooseQuantized> {
  using ChooseQuantizedBase::ChooseQuantizedBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FuncOp entry = findFunction(module, kTrain, "expected the model of phase 1, as import gives it");
    std::optional<CodeKind> codes = symbolizeCodeKind(kind);
    if (entry && !codes)
      module.emitError("--frozen-weights is \"") << kind << "\", expected int8 or nf4";
    if (!entry || !codes)
      return signalPassFailure();
    ModuleOp evaluation = evaluationOf(module);
    SymbolTable trained(module);
    std::optional<SymbolTable> evaluated;
    if (evaluation)
      evaluated.emplace(evaluation);
    bool isAnyChosen = false;
    for (LinearLayer &layer : findLinearLayers(module, entry).layers) {
      if (layer.makesOutput || !layer.weight.getFrozen())
        continue;
      if (failed(checkPairs(layer, *codes)))
        return signalPassFailure();
      mark(layer.weight, layer, *codes);
      if (ParamOp same = evaluated ? evaluated->lookup<ParamOp>(layer.weight.getSymName()) : ParamOp())
        mark(same, layer, *codes);
      ++weights;
      isAnyChosen = true;
    }
    if (isAnyChosen)
      return;
    module.emitError("--frozen-weights is \"")
        << kind << "\", but no linear layer in front of the model's output is frozen; give --lora, --train or --freeze";
    signalPassFailure();
  }

private:
  /// Bytes are split as weights are, over dimensions of the view that products have of them: both elements of a byte
  /// have to be of one row of it, whatever the rows of the model's own shape are.
  static LogicalResult checkPairs(LinearLayer &layer, CodeKind codes) {
    ArrayRef<int64_t> view = layer.weight.getTensorType().getShape();
    if (codes != CodeKind::nf4 || view.back() % 2 == 0)
      return success();
    SmallVector<int64_t> logical = layer.weight.getLogicalShape();
    InFlightDiagnostic error = layer.weight.emitError("@") << layer.weight.getSymName() << " is " << spell(logical);
    if (ArrayRef(logical) != view)
      error << " in the model and " << spell(view) << " where it is computed with";
    return error
           << "; --frozen-weights nf4 keeps two elements of the last dimension in a byte, expected an even number "
              "of them and found "
           << view.back() << "; give --frozen-weights int8, or train this weight (--train) instead of freezing it";
  }

  static void mark(ParamOp weight, LinearLayer &layer, CodeKind codes) {
    Builder builder(weight.getContext());
    weight->setAttr(kQuantized, CodeKindAttr::get(weight.getContext(), codes));
    weight->setAttr(kQuantizedInputs, builder.getI64IntegerAttr(llvm::product_of(layer.inputShape())));
    if (layer.inputsFirst)
      weight->setAttr(kQuantizedInputsFirst, builder.getUnitAttr());
  }
};
} // namespace
