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

namespace {
struct ChooseQuantized : hyc::impl::ChooseQuantizedBase<ChooseQuantized> {
  using ChooseQuantizedBase::ChooseQuantizedBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FuncOp entry = findFunction(module, kEntry, "expected the model of phase 1, as import gives it");
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
  static LogicalResult checkPairs(LinearLayer &layer, CodeKind codes) {
    int64_t last = layer.weight.getTensorType().getShape().back();
    if (codes != CodeKind::nf4 || last % 2 == 0)
      return success();
    return layer.weight.emitError("@") << layer.weight.getSymName() << " has " << last
                                       << " elements along its last dimension, of which --frozen-weights nf4 keeps two "
                                          "a byte; expected an even number, or --frozen-weights int8";
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
