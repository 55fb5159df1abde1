// AttachOptimizer: builds @apply, which turns the step's gradient sums into one update a parameter.
#include "OptimizerUpdates.h"
#include "hyc/Support/NamePattern.h"
#include "hyc/Support/Optimizers.h"
#include "hyc/Transforms/Train/LossScale.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_ATTACHOPTIMIZER
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {
struct AttachOptimizer : hyc::impl::AttachOptimizerBase<AttachOptimizer> {
  using AttachOptimizerBase::AttachOptimizerBase;

  void runOnOperation() override;

private:
  StateMaker &states() { return getAnalysis<StateMaker>(); }
  LogicalResult verifyOptions();
  /// Patterns of `no-decay`, compiled.
  LogicalResult compilePatterns(SmallVectorImpl<NamePattern> &patterns);
  StepValues buildStep(OpBuilder &builder, FuncOp apply, ArrayRef<StateOp> gradients);
  /// Whether a number is neither infinite nor NaN.
  Value buildFinite(OpBuilder &builder, Location loc, Value number);
  void buildLossScale(OpBuilder &builder, StateOp scale, Value finite);
  void buildRefresh(OpBuilder &builder, ParamOp param, ArrayRef<StateOp> copies);
  /// The next step's scales of quantised tensors.
  void buildFp8Scales(OpBuilder &builder);
};
} // namespace

LogicalResult AttachOptimizer::verifyOptions() {
  ModuleOp module = getOperation();
  const Optimizer *row = findOptimizer(optimizer);
  if (!row || !findUpdate(row->name))
    return module.emitError("--optimizer is \"") << optimizer << "\", expected " << kOptimizerList;
  if (cycleMomentum && !row->cyclesMomentum)
    return module.emitError("--optimizer is \"") << optimizer << "\", whose momentum does not cycle";
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

LogicalResult AttachOptimizer::compilePatterns(SmallVectorImpl<NamePattern> &patterns) {
  for (const std::string &text : noDecay) {
    llvm::Expected<NamePattern> pattern = NamePattern::compile(text);
    if (!pattern)
      return getOperation().emitError("--no-decay pattern \"")
             << StringRef(text).take_front(100)
             << "\" is no regular expression: " << llvm::toString(pattern.takeError());
    patterns.push_back(std::move(*pattern));
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
  StateOp count = findState(module, StateRole::tokenCount);
  StateOp norm = states().create(StateRole::gradNorm, scalar(builder.getF32Type()));
  StateOp step = states().create(StateRole::step, scalar(builder.getI64Type()));

  auto squares = named(SumOfSquaresOp::create(builder, loc, scalar(builder.getF64Type()), builder.getArrayAttr(names)),
                       "apply.sum_of_squares");
  auto counted =
      named(ReadOp::create(builder, loc, count.getTensorType(), FlatSymbolRefAttr::get(count)), "apply.count");
  StateOp lossScale = findState(module, StateRole::lossScale);
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
    StateOp applied = states().create(StateRole::appliedStep, step.getTensorType());
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
  auto counter = [&](StateRole role, int64_t first) {
    StateOp state = states().create(role, RankedTensorType::get({}, builder.getI64Type()));
    state.setInitAttr(FillAttr::get(&getContext(), builder.getF64FloatAttr(static_cast<double>(first))));
    return FlatSymbolRefAttr::get(state);
  };
  FlatSymbolRefAttr good = counter(StateRole::goodSteps, 0), left = counter(StateRole::hysteresis, hysteresis);
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
    if (!state.is(StateRole::fp8Scale))
      continue;
    auto others = llvm::to_vector(state->getAttrOfType<ArrayAttr>(kFp8States).getAsRange<FlatSymbolRefAttr>());
    auto update = UpdateFp8ScaleOp::create(builder, state.getLoc(), FlatSymbolRefAttr::get(state), others[0], others[1],
                                           others[2], state->getAttrOfType<FloatAttr>(kFp8Largest));
    setId(update, state.getSymName() + ".update");
  }
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
  SmallVector<NamePattern> patterns;
  FuncOp microbatch = findFunction(module, kMicrobatch, "expected a differentiated model; run hyc-differentiate first");
  if (!microbatch || failed(verifyOptions()) || failed(compilePatterns(patterns)))
    return signalPassFailure();
  if (module.lookupSymbol(kApply) || !findState(module, StateRole::tokenCount)) {
    microbatch.emitError("expected a differentiated model without an optimizer");
    return signalPassFailure();
  }
  SmallVector<StateOp> gradients;
  llvm::StringMap<SmallVector<StateOp, 1>> copies; // in the compute type, by parameter
  for (auto state : module.getOps<StateOp>()) {
    if (state.is(StateRole::gradient))
      gradients.push_back(state);
    if (state.is(StateRole::compute) && state.getParam())
      copies[*state.getParam()].push_back(state);
  }

  OpBuilder builder(&getContext());
  builder.setInsertionPointAfter(microbatch);
  FuncOp apply = createApply(builder, module, cycleMomentum);
  builder.setInsertionPointToEnd(&apply.getBody().front());
  StepValues step = buildStep(builder, apply, gradients);
  const OptimizerSettings settings{beta1, beta2, epsilon, momentum, leastTrust, mostTrust, correctBias};
  for (StateOp gradient : gradients) {
    auto param = states().lookup<ParamOp>(*gradient.getParam());
    bool decays =
        llvm::none_of(patterns, [&](const NamePattern &pattern) { return pattern.match(param.getSymName()); });
    UpdateSite site(builder, states(), settings, step, param, gradient, decays ? weightDecay : 0.0);
    findUpdate(findOptimizer(optimizer)->name)(site);
    buildRefresh(builder, param, copies[param.getSymName()]);
    undecayedParameters += !decays;
    ++updatedParameters;
  }
  buildFp8Scales(builder);
  ReturnOp::create(builder, apply.getLoc(), ValueRange());
}
