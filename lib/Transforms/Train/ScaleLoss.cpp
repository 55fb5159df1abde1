// ScaleLoss: the cotangent of the loss becomes the present loss scale, a state, over the micro-batch's positions.
#include "TrainingState.h"
#include "hyc/Transforms/Train/LossScale.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_SCALELOSS
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

/// Positions whose losses one micro-batch adds up, as a power of two, so that dividing by it loses nothing.
static double countPositions(FuncOp microbatch) {
  int64_t positions = 1;
  StateOp tokenCount = findState(microbatch->getParentOfType<ModuleOp>(), StateRole::tokenCount);
  for (auto accumulate : microbatch.getOps<AccumulateOp>()) {
    if (accumulate.getTarget() != tokenCount.getSymName())
      continue;
    Operation *count = accumulate.getValue().getDefiningOp();
    DenseIntElementsAttr number;
    if (auto loss = dyn_cast<CrossEntropyOp>(count))
      positions = cast<RankedTensorType>(loss.getLabels().getType()).getNumElements();
    else if (matchPattern(count, m_Constant(&number)))
      positions = number.getSplatValue<APInt>().getSExtValue();
  }
  return static_cast<double>(llvm::PowerOf2Ceil(static_cast<uint64_t>(std::max<int64_t>(positions, 1))));
}

static Operation *findSeed(FuncOp microbatch) {
  for (Operation &op : microbatch.getBody().front())
    if (op.hasAttr(kLossSeed))
      return &op;
  return nullptr;
}

namespace {
struct ScaleLoss : hyc::impl::ScaleLossBase<ScaleLoss> {
  using ScaleLossBase::ScaleLossBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FuncOp function = findFunction(module, kMicrobatch, "expected a differentiated model; run hyc-differentiate first");
    if (!function || failed(verifyScale()))
      return signalPassFailure();
    Operation *seed = findSeed(function);
    if (!seed || module.lookupSymbol<FuncOp>(kApply)) {
      function.emitError(seed ? "expected a model without an optimizer yet"
                              : "has no op marked as the loss's cotangent");
      return signalPassFailure();
    }
    replaceSeed(function, seed);
  }

private:
  LogicalResult verifyScale() {
    if (std::isfinite(initialScale) && initialScale >= 1 && initialScale <= 0x1p126)
      return success();
    return getOperation().emitError("the loss scale is ")
           << std::to_string(initialScale) << ", expected a number from 1 to 2^126";
  }

  void replaceSeed(FuncOp function, Operation *seed) {
    OpBuilder builder(seed);
    Location loc = seed->getLoc();
    auto type = RankedTensorType::get({}, builder.getF32Type());
    StateOp scale = StateMaker(getOperation()).create(StateRole::lossScale, type);
    scale.setInitAttr(FillAttr::get(&getContext(), builder.getF64FloatAttr(initialScale)));
    double divisor = normalizer > 0 ? normalizer : countPositions(function);
    scale->setAttr(kNormalizer, builder.getF64FloatAttr(divisor));

    std::string id = getId(seed).str();
    auto named = [&](auto op, const Twine &suffix) {
      op->setAttr(kBackward, builder.getUnitAttr());
      setId(op, id + suffix);
      return op->getResult(0);
    };
    Value read = named(ReadOp::create(builder, loc, type, FlatSymbolRefAttr::get(scale)), ".scale");
    auto reciprocal = DenseElementsAttr::get(type, static_cast<float>(1 / divisor));
    Value share = named(ConstantOp::create(builder, loc, type, cast<ElementsAttr>(reciprocal)), ".share");
    Value scaled = named(MulOp::create(builder, loc, read, share), "");
    scaled.getDefiningOp()->setAttr(kLossSeed, builder.getUnitAttr());
    seed->getResult(0).replaceAllUsesWith(scaled);
    seed->erase();
  }
};
} // namespace
