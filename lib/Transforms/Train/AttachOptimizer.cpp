// AttachOptimizer: builds @apply, which turns the step's gradient sums into one update a parameter.
#include "TrainingState.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
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
  Value momentum; ///< this step's decay of the first moment; null: a constant
  Value finite;   ///< null where updates always happen
};

/// A parameter to update, and by what.
struct Update {
  ParamOp param;
  StateOp gradient;
  double decay;

  FlatSymbolRefAttr paramRef() const { return FlatSymbolRefAttr::get(ParamOp(param)); }
  FlatSymbolRefAttr gradientRef() const { return FlatSymbolRefAttr::get(StateOp(gradient)); }
};

struct AttachOptimizer : hyc::impl::AttachOptimizerBase<AttachOptimizer> {
  using AttachOptimizerBase::AttachOptimizerBase;

  void runOnOperation() override;

private:
  StateMaker &states() { return getAnalysis<StateMaker>(); }
  LogicalResult verifyOptions();
  /// Patterns of `no-decay`, compiled.
  LogicalResult compilePatterns(SmallVectorImpl<llvm::Regex> &patterns);
  StepValues buildStep(OpBuilder &builder, FuncOp apply, ArrayRef<StateOp> gradients);
  /// Whether a number is neither infinite nor NaN.
  Value buildFinite(OpBuilder &builder, Location loc, Value number);
  void buildLossScale(OpBuilder &builder, StateOp scale, Value finite);
  void buildRefresh(OpBuilder &builder, ParamOp param, ArrayRef<StateOp> copies);
  /// The next step's scales of quantised tensors.
  void buildFp8Scales(OpBuilder &builder);
  /// A state of the parameter's shape, which the optimizer keeps under a role.
  FlatSymbolRefAttr keep(ParamOp param, StringRef role, StringRef suffix);
  template <typename Op> void buildAdam(OpBuilder &builder, const Update &update, const StepValues &step);
  void buildSgd(OpBuilder &builder, const Update &update, const StepValues &step);
  void buildLion(OpBuilder &builder, const Update &update, const StepValues &step);
  void buildLamb(OpBuilder &builder, const Update &update, const StepValues &step);
  void buildUpdate(OpBuilder &builder, const Update &update, const StepValues &step);
};
} // namespace

LogicalResult AttachOptimizer::verifyOptions() {
  ModuleOp module = getOperation();
  if (!llvm::is_contained({"adamw", "adam", "sgd", "lamb", "lion"}, StringRef(optimizer)))
    return module.emitError("--optimizer is \"") << optimizer << "\", expected adamw, adam, sgd, lamb or lion";
  if (cycleMomentum && optimizer == "sgd")
    return module.emitError("--optimizer is \"sgd\", whose momentum does not cycle");
  if (!(leastTrust >= 0 && leastTrust <= mostTrust))
    return module.emitError("the trust ratio is bounded by ")
           << std::to_string(leastTrust) << " and " << std::to_string(mostTrust) << ", expected 0 ≤ least ≤ most";
  struct Range {
    StringRef flag;
    double value;
    bool valid;
    StringRef expected;
  };
  for (const Range &range :
       {Range{"beta1", beta1, beta1 >= 0 && beta1 < 1, "at least 0 and below 1"},
        Range{"beta2", beta2, beta2 >= 0 && beta2 < 1, "at least 0 and below 1"},
        Range{"eps", epsilon, epsilon > 0 && epsilon < 1, "above 0 and below 1"},
        Range{"weight-decay", weightDecay, weightDecay >= 0 && weightDecay < 1e6, "at least 0"},
        Range{"momentum", momentum, momentum >= 0 && momentum < 1, "at least 0 and below 1"},
        Range{"clip-grad-norm", clipGradNorm, clipGradNorm >= 0 && clipGradNorm < 1e30, "at least 0 (0 does not clip)"},
        Range{"loss-scale-window", double(lossScaleWindow), lossScaleWindow >= 0,
              "at least 0 (0 keeps the loss scale)"},
        Range{"hysteresis", double(hysteresis), hysteresis >= 1, "at least 1"},
        Range{"min-loss-scale", minLossScale, minLossScale > 0 && minLossScale <= 0x1p126,
              "above 0 and at most 2^126"}})
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
  StateOp norm = states().create(kGradNorm, kGradNorm, scalar(builder.getF32Type()));
  StateOp step = states().create(kStep, kStep, scalar(builder.getI64Type()));

  auto squares = named(SumOfSquaresOp::create(builder, loc, scalar(builder.getF64Type()), builder.getArrayAttr(names)),
                       "apply.sum_of_squares");
  auto counted =
      named(ReadOp::create(builder, loc, count.getTensorType(), FlatSymbolRefAttr::get(count)), "apply.count");
  StateOp lossScale = findState(module, kLossScale);
  Value lossScaleValue, finite;
  double normalizer = 1;
  if (lossScale) {
    lossScaleValue = named(ReadOp::create(builder, loc, lossScale.getTensorType(), FlatSymbolRefAttr::get(lossScale)),
                           "apply.loss_scale");
    normalizer = lossScale->getAttrOfType<FloatAttr>(kNormalizer).getValueAsDouble();
    finite = buildFinite(builder, loc, squares);
  }
  auto scale = named(GradientScaleOp::create(builder, loc, scalar(builder.getF32Type()), scalar(builder.getF32Type()),
                                             squares, counted, lossScaleValue,
                                             clipGradNorm > 0 ? builder.getF64FloatAttr(clipGradNorm) : FloatAttr(),
                                             builder.getF64FloatAttr(normalizer)),
                     "apply.scale");
  named(WriteOp::create(builder, loc, scale.getNorm(), FlatSymbolRefAttr::get(norm)), "apply.norm");
  Value next = named(IncrementOp::create(builder, loc, step.getTensorType(), FlatSymbolRefAttr::get(step), Value()),
                     "apply.step");
  if (lossScale) {
    StateOp applied = states().create(kAppliedStep, kAppliedStep, step.getTensorType());
    next = named(IncrementOp::create(builder, loc, applied.getTensorType(), FlatSymbolRefAttr::get(applied), finite),
                 "apply.applied_step");
    buildLossScale(builder, lossScale, finite);
  }
  return {apply.getArgument(0), next, scale.getScale(), cycleMomentum ? apply.getArgument(1) : Value(), finite};
}

/// |x| < infinity, which NaN is not. An overflow on any rank and stage is in the sum of squares, and so is its
/// decision.
Value AttachOptimizer::buildFinite(OpBuilder &builder, Location loc, Value number) {
  auto type = cast<RankedTensorType>(number.getType());
  const llvm::fltSemantics &semantics = cast<FloatType>(type.getElementType()).getFloatSemantics();
  auto named = [](auto op, StringRef id) {
    setId(op, id);
    return op->getResult(0);
  };
  Value magnitude = named(AbsOp::create(builder, loc, number), "apply.magnitude");
  auto infinity = DenseElementsAttr::get(type, APFloat::getInf(semantics));
  Value bound = named(ConstantOp::create(builder, loc, type, cast<ElementsAttr>(infinity)), "apply.infinity");
  auto boolean = RankedTensorType::get({}, builder.getI1Type());
  return named(CompareOp::create(builder, loc, boolean, ComparePredicate::lt, magnitude, bound), "apply.finite");
}

void AttachOptimizer::buildLossScale(OpBuilder &builder, StateOp scale, Value finite) {
  if (lossScaleWindow == 0)
    return;
  auto counter = [&](StringRef role, int64_t first) {
    StateOp state = states().create(role, role, RankedTensorType::get({}, builder.getI64Type()));
    state.setInitAttr(FillAttr::get(&getContext(), builder.getF64FloatAttr(static_cast<double>(first))));
    return FlatSymbolRefAttr::get(state);
  };
  FlatSymbolRefAttr good = counter(kGoodSteps, 0), left = counter(kHysteresis, hysteresis);
  auto update = UpdateLossScaleOp::create(builder, scale.getLoc(), FlatSymbolRefAttr::get(scale), good, left, finite,
                                          builder.getI64IntegerAttr(lossScaleWindow),
                                          builder.getI64IntegerAttr(hysteresis), builder.getF64FloatAttr(minLossScale),
                                          consecutiveHysteresis ? builder.getUnitAttr() : UnitAttr());
  setId(update, "apply.loss_scale.update");
}

void AttachOptimizer::buildRefresh(OpBuilder &builder, ParamOp param, ArrayRef<StateOp> copies) {
  for (StateOp copy : copies) {
    auto refresh =
        RefreshOp::create(builder, param.getLoc(), FlatSymbolRefAttr::get(copy), FlatSymbolRefAttr::get(param));
    setId(refresh, param.getSymName() + ".refresh");
  }
}

void AttachOptimizer::buildFp8Scales(OpBuilder &builder) {
  for (auto state : getOperation().getOps<StateOp>()) {
    if (state.getRole() != kFp8Scale)
      continue;
    auto others = llvm::to_vector(state->getAttrOfType<ArrayAttr>(kFp8States).getAsRange<FlatSymbolRefAttr>());
    auto update = UpdateFp8ScaleOp::create(builder, state.getLoc(), FlatSymbolRefAttr::get(state), others[0], others[1],
                                           others[2], state->getAttrOfType<FloatAttr>(kFp8Largest));
    setId(update, state.getSymName() + ".update");
  }
}

FlatSymbolRefAttr AttachOptimizer::keep(ParamOp param, StringRef role, StringRef suffix) {
  return FlatSymbolRefAttr::get(states().create(param.getSymName() + "." + suffix, role, param.getTensorType(), param));
}

static UnitAttr unitIf(OpBuilder &builder, bool condition) { return condition ? builder.getUnitAttr() : UnitAttr(); }

template <typename Op>
void AttachOptimizer::buildAdam(OpBuilder &builder, const Update &update, const StepValues &step) {
  ParamOp param = update.param;
  FlatSymbolRefAttr m = keep(param, "adam.m", "adam.m"), v = keep(param, "adam.v", "adam.v");
  auto op = Op::create(builder, param.getLoc(), update.paramRef(), update.gradientRef(), m, v, step.lr, step.step,
                       step.scale, step.momentum, step.finite, builder.getF64FloatAttr(beta1),
                       builder.getF64FloatAttr(beta2), builder.getF64FloatAttr(epsilon),
                       builder.getF64FloatAttr(update.decay), unitIf(builder, !correctBias));
  setId(op, param.getSymName() + ".update");
}

void AttachOptimizer::buildSgd(OpBuilder &builder, const Update &update, const StepValues &step) {
  ParamOp param = update.param;
  FlatSymbolRefAttr velocity;
  if (momentum > 0)
    velocity = keep(param, "sgd.momentum", "momentum");
  auto op =
      SgdOp::create(builder, param.getLoc(), update.paramRef(), update.gradientRef(), velocity, step.lr, step.scale,
                    step.finite, builder.getF64FloatAttr(momentum), builder.getF64FloatAttr(update.decay));
  setId(op, param.getSymName() + ".update");
}

void AttachOptimizer::buildLion(OpBuilder &builder, const Update &update, const StepValues &step) {
  ParamOp param = update.param;
  FlatSymbolRefAttr m = keep(param, "lion.m", "lion.m");
  auto op = LionOp::create(builder, param.getLoc(), update.paramRef(), update.gradientRef(), m, step.lr, step.scale,
                           step.momentum, step.finite, builder.getF64FloatAttr(beta1), builder.getF64FloatAttr(beta2),
                           builder.getF64FloatAttr(update.decay));
  setId(op, param.getSymName() + ".update");
}

/// The direction, the norms of it and of the parameter, and the step along it.
void AttachOptimizer::buildLamb(OpBuilder &builder, const Update &update, const StepValues &step) {
  ParamOp param = update.param;
  Location loc = param.getLoc();
  std::string path = param.getSymName().str();
  FlatSymbolRefAttr m = keep(param, "lamb.m", "lamb.m"), v = keep(param, "lamb.v", "lamb.v");
  auto direction = LambDirectionOp::create(builder, loc, update.paramRef(), update.gradientRef(), m, v, step.step,
                                           step.scale, step.momentum, step.finite, builder.getF64FloatAttr(beta1),
                                           builder.getF64FloatAttr(beta2), builder.getF64FloatAttr(epsilon),
                                           builder.getF64FloatAttr(update.decay), unitIf(builder, !correctBias));
  setId(direction, path + ".direction");
  auto squares = [&](FlatSymbolRefAttr of, StringRef what) -> Value {
    auto sum = SumOfSquaresOp::create(builder, loc, RankedTensorType::get({}, builder.getF64Type()),
                                      builder.getArrayAttr({of}));
    setId(sum, path + "." + what.str() + "_squares");
    return sum;
  };
  Value ofParam = squares(update.paramRef(), "param"), ofDirection = squares(update.gradientRef(), "direction");
  auto ratio = TrustRatioOp::create(builder, loc, ofParam.getType(), ofParam, ofDirection,
                                    builder.getF64FloatAttr(leastTrust), builder.getF64FloatAttr(mostTrust));
  setId(ratio, path + ".trust_ratio");
  auto op = LambOp::create(builder, loc, update.paramRef(), update.gradientRef(), step.lr, ratio, step.finite);
  setId(op, path + ".update");
}

void AttachOptimizer::buildUpdate(OpBuilder &builder, const Update &update, const StepValues &step) {
  if (optimizer == "adamw")
    buildAdam<AdamWOp>(builder, update, step);
  else if (optimizer == "adam")
    buildAdam<AdamOp>(builder, update, step);
  else if (optimizer == "lion")
    buildLion(builder, update, step);
  else if (optimizer == "lamb")
    buildLamb(builder, update, step);
  else
    buildSgd(builder, update, step);
}

/// @apply, whose arguments are what the runtime sets for each step.
static FuncOp createApply(OpBuilder &builder, ModuleOp module, bool cyclesMomentum) {
  SmallVector<Type> types{RankedTensorType::get({}, builder.getF32Type())};
  SmallVector<StringRef> names{"lr"};
  if (cyclesMomentum) {
    types.push_back(RankedTensorType::get({}, builder.getF64Type()));
    names.push_back("momentum");
  }
  auto apply = FuncOp::create(builder, module.getLoc(), kApply, builder.getFunctionType(types, {}));
  for (auto [index, name] : llvm::enumerate(names))
    apply.setArgAttr(index, kScalar, builder.getStringAttr(name));
  return apply;
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
  llvm::StringMap<SmallVector<StateOp, 1>> copies; // in the compute type, by parameter
  for (auto state : module.getOps<StateOp>()) {
    if (state.getRole() == kGradient)
      gradients.push_back(state);
    if (state.getRole() == kCompute && state.getParam())
      copies[*state.getParam()].push_back(state);
  }

  OpBuilder builder(&getContext());
  builder.setInsertionPointAfter(microbatch);
  FuncOp apply = createApply(builder, module, cycleMomentum);
  builder.setInsertionPointToEnd(&apply.getBody().front());
  StepValues step = buildStep(builder, apply, gradients);
  for (StateOp gradient : gradients) {
    auto param = states().lookup<ParamOp>(*gradient.getParam());
    bool decays = llvm::none_of(patterns, [&](llvm::Regex &pattern) { return pattern.match(param.getSymName()); });
    buildUpdate(builder, {param, gradient, decays ? weightDecay : 0.0}, step);
    buildRefresh(builder, param, copies[param.getSymName()]);
    undecayedParameters += !decays;
    ++updatedParameters;
  }
  buildFp8Scales(builder);
  ReturnOp::create(builder, apply.getLoc(), ValueRange());
}
