// AttachOptimizer: builds @apply, which turns the step's gradient sums into one update a parameter.
#include "TrainingState.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_ATTACHOPTIMIZER
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {
/// What every update of one step shares.
struct StepValues {
  Value lr, step, scale;
};

struct AttachOptimizer : hyc::impl::AttachOptimizerBase<AttachOptimizer> {
  using AttachOptimizerBase::AttachOptimizerBase;

  void runOnOperation() override;

private:
  LogicalResult verifyOptions();
  /// Patterns of `no-decay`, compiled.
  LogicalResult compilePatterns(SmallVectorImpl<llvm::Regex> &patterns);
  StepValues buildStep(OpBuilder &builder, FuncOp apply, ArrayRef<StateOp> gradients);
  void buildAdamW(OpBuilder &builder, StateOp gradient, ParamOp param, const StepValues &step, double decay);
  void buildSgd(OpBuilder &builder, StateOp gradient, ParamOp param, const StepValues &step, double decay);
};
} // namespace

LogicalResult AttachOptimizer::verifyOptions() {
  ModuleOp module = getOperation();
  if (optimizer != "adamw" && optimizer != "sgd")
    return module.emitError("--optimizer is \"") << optimizer << "\", expected adamw or sgd";
  struct Range {
    StringRef flag;
    double value;
    bool valid;
    StringRef expected;
  };
  for (const Range &range : {Range{"beta1", beta1, beta1 >= 0 && beta1 < 1, "at least 0 and below 1"},
                             Range{"beta2", beta2, beta2 >= 0 && beta2 < 1, "at least 0 and below 1"},
                             Range{"eps", epsilon, epsilon > 0 && epsilon < 1, "above 0 and below 1"},
                             Range{"weight-decay", weightDecay, weightDecay >= 0 && weightDecay < 1e6, "at least 0"},
                             Range{"momentum", momentum, momentum >= 0 && momentum < 1, "at least 0 and below 1"},
                             Range{"clip-grad-norm", clipGradNorm, clipGradNorm >= 0 && clipGradNorm < 1e30,
                                   "at least 0 (0 does not clip)"}})
    if (!range.valid)
      return module.emitError("--") << range.flag << " is " << std::to_string(range.value) << ", expected "
                                    << range.expected;
  return success();
}

LogicalResult AttachOptimizer::compilePatterns(SmallVectorImpl<llvm::Regex> &patterns) {
  for (const std::string &text : noDecay) {
    llvm::Regex pattern(text);
    std::string problem;
    if (!pattern.isValid(problem))
      return getOperation().emitError("--no-decay pattern \"") << text << "\" is no regular expression: " << problem;
    patterns.push_back(std::move(pattern));
  }
  return success();
}

StepValues AttachOptimizer::buildStep(OpBuilder &builder, FuncOp apply, ArrayRef<StateOp> gradients) {
  ModuleOp module = getOperation();
  Location loc = apply.getLoc();
  auto scalar = [](Type type) { return RankedTensorType::get({}, type); };
  auto named = [](auto op, StringRef id) {
    setId(op, id);
    return op;
  };
  SmallVector<Attribute> names;
  for (StateOp gradient : gradients)
    names.push_back(FlatSymbolRefAttr::get(gradient));
  StateOp count = findState(module, kTokenCount);
  StateOp norm = createState(module, kGradNorm, kGradNorm, scalar(builder.getF32Type()));
  StateOp step = createState(module, kStep, kStep, scalar(builder.getI64Type()));

  auto squares = named(SumOfSquaresOp::create(builder, loc, scalar(builder.getF64Type()), builder.getArrayAttr(names)),
                       "apply.sum_of_squares");
  auto counted =
      named(ReadOp::create(builder, loc, count.getTensorType(), FlatSymbolRefAttr::get(count)), "apply.count");
  auto scale =
      named(GradientScaleOp::create(builder, loc, scalar(builder.getF32Type()), scalar(builder.getF32Type()), squares,
                                    counted, clipGradNorm > 0 ? builder.getF64FloatAttr(clipGradNorm) : FloatAttr()),
            "apply.scale");
  named(WriteOp::create(builder, loc, scale.getNorm(), FlatSymbolRefAttr::get(norm)), "apply.norm");
  auto next =
      named(IncrementOp::create(builder, loc, step.getTensorType(), FlatSymbolRefAttr::get(step)), "apply.step");
  return {apply.getArgument(0), next, scale.getScale()};
}

void AttachOptimizer::buildAdamW(OpBuilder &builder, StateOp gradient, ParamOp param, const StepValues &step,
                                 double decay) {
  auto moment = [&](StringRef role) {
    StateOp state = createState(getOperation(), param.getSymName() + "." + role, role, param.getTensorType(), param);
    return FlatSymbolRefAttr::get(state);
  };
  FlatSymbolRefAttr m = moment("adam.m"), v = moment("adam.v");
  auto update =
      AdamWOp::create(builder, param.getLoc(), FlatSymbolRefAttr::get(param), FlatSymbolRefAttr::get(gradient), m, v,
                      step.lr, step.step, step.scale, builder.getF64FloatAttr(beta1), builder.getF64FloatAttr(beta2),
                      builder.getF64FloatAttr(epsilon), builder.getF64FloatAttr(decay));
  setId(update, param.getSymName() + ".update");
}

void AttachOptimizer::buildSgd(OpBuilder &builder, StateOp gradient, ParamOp param, const StepValues &step,
                               double decay) {
  FlatSymbolRefAttr velocity;
  if (momentum > 0)
    velocity = FlatSymbolRefAttr::get(
        createState(getOperation(), param.getSymName() + ".momentum", "sgd.momentum", param.getTensorType(), param));
  auto update =
      SgdOp::create(builder, param.getLoc(), FlatSymbolRefAttr::get(param), FlatSymbolRefAttr::get(gradient), velocity,
                    step.lr, step.scale, builder.getF64FloatAttr(momentum), builder.getF64FloatAttr(decay));
  setId(update, param.getSymName() + ".update");
}

void AttachOptimizer::runOnOperation() {
  ModuleOp module = getOperation();
  SmallVector<llvm::Regex> patterns;
  FuncOp microbatch = findFunction(module, kMicrobatch, "expected a differentiated model; run hyc-differentiate first");
  if (!microbatch || failed(verifyOptions()) || failed(compilePatterns(patterns)))
    return signalPassFailure();
  if (module.lookupSymbol(kApply) || !findState(module, kTokenCount)) {
    microbatch.emitError("expected a differentiated model without an optimizer");
    return signalPassFailure();
  }
  SmallVector<StateOp> gradients;
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() == kGradient)
      gradients.push_back(state);

  OpBuilder builder(&getContext());
  builder.setInsertionPointAfter(microbatch);
  auto lrType = RankedTensorType::get({}, builder.getF32Type());
  auto apply = FuncOp::create(builder, module.getLoc(), kApply, builder.getFunctionType({lrType}, {}));
  apply.setArgAttr(0, kScalar, builder.getStringAttr("lr"));
  builder.setInsertionPointToEnd(&apply.getBody().front());
  StepValues step = buildStep(builder, apply, gradients);
  for (StateOp gradient : gradients) {
    auto param = module.lookupSymbol<ParamOp>(gradient.getParamAttr());
    bool decays = llvm::none_of(patterns, [&](llvm::Regex &pattern) { return pattern.match(param.getSymName()); });
    double decay = decays ? weightDecay : 0.0;
    optimizer == "adamw" ? buildAdamW(builder, gradient, param, step, decay)
                         : buildSgd(builder, gradient, param, step, decay);
    undecayedParameters += !decays;
    ++updatedParameters;
  }
  ReturnOp::create(builder, apply.getLoc(), ValueRange());
}
