// Norms, factors and updates of states, whole or in this rank's flat shards.
#include "Mesh/StateMoves.h"
#include "Mesh/StateShards.h"
#include "dialects/Hyc/HycDialect.h"
#include "kernels/adamw/reference.h"
#include "kernels/fp8_scale/reference.h"
#include "kernels/lamb/reference.h"
#include "kernels/lion/reference.h"
#include "kernels/loss_scale/reference.h"
#include "kernels/sum_of_squares/reference.h"
#include <cmath>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

namespace {
/// The floating-point states that an op names, as it sees them, computed with in one arithmetic, and of one size.
struct NamedStates {
  SmallVector<StateShard> shards;
  SmallVector<Tensor> values;

  /// Fails after a diagnostic.
  LogicalResult find(OpCall &call, ArrayRef<StringRef> symbols);
  void store() {
    for (auto [shard, value] : llvm::zip_equal(shards, values))
      shard.store(value);
  }
};
} // namespace

LogicalResult NamedStates::find(OpCall &call, ArrayRef<StringRef> symbols) {
  for (StringRef symbol : symbols) {
    FailureOr<StateShard> shard = StateShard::find(call, symbol);
    if (failed(shard))
      return failure();
    Tensor value = shard->load();
    if (!isFloat(value.getKind()))
      return call.op->emitError("needs a floating-point state, but @") << symbol << " is " << value.describeType();
    if (!values.empty() &&
        (!areStoredAlike(value.getKind(), values[0].getKind()) || value.getShape() != values[0].getShape()))
      return call.op->emitError("@") << symbol << " is " << value.describeType() << ", expected "
                                     << values[0].describeType() << " as @" << symbols[0];
    shards.push_back(*shard);
    values.push_back(std::move(value));
  }
  return checkPlaces(call, symbols);
}

static LogicalResult checkScalars(OpCall &call) {
  for (auto [index, operand] : llvm::enumerate(call.operands))
    if (operand.getNumElements() != 1)
      return call.op->emitError("operand ") << index << " is " << operand.describeType() << ", expected a scalar";
  return success();
}

static LogicalResult evaluateSumOfSquares(OpCall &call) {
  Tensor exact(ElementKind::I64, {kExactSumLimbs});
  int64_t *limbs = exact.mutableData<int64_t>();
  for (auto name : cast<SumOfSquaresOp>(call.op).getStates().getAsRange<FlatSymbolRefAttr>()) {
    NamedStates states;
    if (failed(states.find(call, {name.getValue()})))
      return failure();
    const Tensor &x = states.values[0];
    dispatchFloat(x.getKind(), [&](auto zero) {
      kernels::reference::addSumOfSquares(x.data<decltype(zero)>(), x.getNumElements(), limbs);
    });
  }
  if (call.resultShape().empty())
    exact = Tensor::scalar(call.resultKind(), kernels::reference::roundExactSum(limbs));
  call.results.push_back(exact);
  return success();
}

static LogicalResult evaluateRoundSum(OpCall &call) {
  call.results.push_back(
      Tensor::scalar(call.resultKind(), kernels::reference::roundExactSum(call.operands[0].data<int64_t>())));
  return success();
}

static LogicalResult evaluateGradientScale(OpCall &call) {
  auto op = cast<GradientScaleOp>(call.op);
  if (failed(checkScalars(call)))
    return failure();
  // Tokens counted, each with the factor that its loss had.
  double count = call.operands[1].getDouble();
  if (op.getLossScale())
    count *= call.operands[2].getDouble() / op.getNormalizer().convertToDouble();
  double norm = count == 0 ? 0 : std::sqrt(call.operands[0].getDouble()) / count;
  double clip = 1;
  if (std::optional<APFloat> maxNorm = op.getMaxNorm())
    clip = std::min(1.0, maxNorm->convertToDouble() / (norm + 1e-6));
  double scale = count == 0 ? 0 : clip / count;
  call.results.push_back(Tensor::splat(call.resultKind(0), call.resultShape(0), scale));
  call.results.push_back(Tensor::splat(call.resultKind(1), call.resultShape(1), norm));
  return success();
}

/// What an update works on: the parameter, its gradient, the optimizer's states.
static LogicalResult findStates(OpCall &call, UpdateOpInterface op, NamedStates &states) {
  SmallVector<StringRef> names;
  for (FlatSymbolRefAttr symbol : op.getSymbols())
    names.push_back(symbol.getValue());
  return success(succeeded(checkScalars(call)) && succeeded(states.find(call, names)));
}

/// Whether an update happens, by its predicate; `call.operands` ends with it where there is one.
static bool happens(UpdateOpInterface op, const OpCall &call) {
  return !op.getPredicate() || call.operands.back().getInteger() != 0;
}

/// The decay of the first moment: this step's, where it cycles, else the attribute's. Before the predicate the momentum
/// is the last operand.
template <typename Op> static double firstDecay(const OpCall &call, Op op) {
  if (!op.getMomentum())
    return op.getBeta1().convertToDouble();
  return call.operands[call.operands.size() - (op.getPredicate() ? 2 : 1)].getDouble();
}

/// Executes an update by what `apply` does to its states' values, if it happens.
static LogicalResult update(OpCall &call, UpdateOpInterface op,
                            llvm::function_ref<void(MutableArrayRef<Tensor>)> apply) {
  NamedStates states;
  if (failed(findStates(call, op, states)))
    return failure();
  if (!happens(op, call))
    return success();
  apply(states.values);
  states.store();
  return success();
}

template <typename Op> static LogicalResult evaluateAdam(OpCall &call) {
  auto op = cast<Op>(call.op);
  return update(call, op, [&](MutableArrayRef<Tensor> values) {
    kernels::AdamWParams params;
    params.lr = call.operands[0].getDouble();
    params.step = call.operands[1].getInteger();
    params.gradScale = call.operands[2].getDouble();
    params.beta1 = firstDecay(call, op);
    params.beta2 = op.getBeta2().convertToDouble();
    params.epsilon = op.getEpsilon().convertToDouble();
    params.weightDecay = op.getWeightDecay().convertToDouble();
    params.decay = std::is_same_v<Op, AdamOp> ? kernels::DecayKind::kAddedToGradient : kernels::DecayKind::kDecoupled;
    params.correctsBias = !op.getUncorrected();
    dispatchFloat(values[0].getKind(), [&](auto zero) {
      using T = decltype(zero);
      kernels::reference::adamw(params, values[0].getNumElements(), values[0].mutableData<T>(), values[1].data<T>(),
                                values[2].mutableData<T>(), values[3].mutableData<T>());
    });
  });
}

namespace {
template <typename T> struct SgdFactors {
  T lr, scale, momentum, weightDecay;
};
} // namespace

/// `velocity` may be null.
template <typename T>
static void updateBySgd(const SgdFactors<T> &factors, int64_t count, T *param, const T *gradient, T *velocity) {
  for (int64_t i = 0; i < count; ++i) {
    T g = factors.scale * gradient[i];
    if (factors.weightDecay != 0)
      g += factors.weightDecay * param[i];
    if (velocity)
      g = velocity[i] = factors.momentum * velocity[i] + g;
    param[i] -= factors.lr * g;
  }
}

static LogicalResult evaluateSgd(OpCall &call) {
  auto op = cast<SgdOp>(call.op);
  return update(call, op, [&](MutableArrayRef<Tensor> values) {
    dispatchFloat(values[0].getKind(), [&](auto zero) {
      using T = decltype(zero);
      SgdFactors<T> factors{static_cast<T>(call.operands[0].getDouble()), static_cast<T>(call.operands[1].getDouble()),
                            static_cast<T>(op.getMomentum().convertToDouble()),
                            static_cast<T>(op.getWeightDecay().convertToDouble())};
      updateBySgd<T>(factors, values[0].getNumElements(), values[0].mutableData<T>(), values[1].data<T>(),
                     values.size() > 2 ? values[2].mutableData<T>() : nullptr);
    });
  });
}

static LogicalResult evaluateLion(OpCall &call) {
  auto op = cast<LionOp>(call.op);
  return update(call, op, [&](MutableArrayRef<Tensor> values) {
    kernels::LionParams params;
    params.lr = call.operands[0].getDouble();
    params.gradScale = call.operands[1].getDouble();
    params.beta1 = firstDecay(call, op);
    params.beta2 = op.getBeta2().convertToDouble();
    params.weightDecay = op.getWeightDecay().convertToDouble();
    dispatchFloat(values[0].getKind(), [&](auto zero) {
      using T = decltype(zero);
      kernels::reference::lion(params, values[0].getNumElements(), values[0].mutableData<T>(), values[1].data<T>(),
                               values[2].mutableData<T>());
    });
  });
}

static LogicalResult evaluateLambDirection(OpCall &call) {
  auto op = cast<LambDirectionOp>(call.op);
  return update(call, op, [&](MutableArrayRef<Tensor> values) {
    kernels::LambParams params;
    params.step = call.operands[0].getInteger();
    params.gradScale = call.operands[1].getDouble();
    params.beta1 = firstDecay(call, op);
    params.beta2 = op.getBeta2().convertToDouble();
    params.epsilon = op.getEpsilon().convertToDouble();
    params.weightDecay = op.getWeightDecay().convertToDouble();
    params.correctsBias = !op.getUncorrected();
    dispatchFloat(values[0].getKind(), [&](auto zero) {
      using T = decltype(zero);
      kernels::reference::lambDirection(params, values[0].getNumElements(), values[0].data<T>(),
                                        values[1].mutableData<T>(), values[2].mutableData<T>(),
                                        values[3].mutableData<T>());
    });
    values[1].roundElements(); // the direction, in a gradient of 16 bits
  });
}

static LogicalResult evaluateTrustRatio(OpCall &call) {
  auto op = cast<TrustRatioOp>(call.op);
  if (failed(checkScalars(call)))
    return failure();
  kernels::TrustRatioBounds bounds{op.getLeast().convertToDouble(), op.getMost().convertToDouble()};
  call.results.push_back(
      Tensor::splat(call.resultKind(), call.resultShape(),
                    kernels::trustRatio(bounds, call.operands[0].getDouble(), call.operands[1].getDouble())));
  return success();
}

static LogicalResult evaluateLamb(OpCall &call) {
  auto op = cast<LambOp>(call.op);
  return update(call, op, [&](MutableArrayRef<Tensor> values) {
    double rate = call.operands[0].getDouble() * call.operands[1].getDouble();
    dispatchFloat(values[0].getKind(), [&](auto zero) {
      using T = decltype(zero);
      kernels::reference::lambUpdate(rate, values[0].getNumElements(), values[0].mutableData<T>(), values[1].data<T>());
    });
  });
}

static LogicalResult evaluateRefresh(OpCall &call) {
  auto op = cast<RefreshOp>(call.op);
  NamedStates states;
  if (failed(states.find(call, {op.getCopy(), op.getParam()})))
    return failure();
  states.shards[0].store(states.values[1].converted(states.values[0].getKind()));
  return success();
}

static LogicalResult evaluateUpdateLossScale(OpCall &call) {
  auto op = cast<UpdateLossScaleOp>(call.op);
  SmallVector<Tensor *> states;
  for (StringRef name : {op.getScale(), op.getGoodSteps(), op.getHysteresisLeft()}) {
    auto entry = call.device.states.find(name);
    if (entry == call.device.states.end() || entry->second.getNumElements() != 1)
      return op.emitError("@") << name << " is not a scalar that the rank holds";
    states.push_back(&entry->second);
  }
  kernels::LossScaleRules rules{static_cast<int64_t>(op.getWindow()), static_cast<int64_t>(op.getHysteresis()),
                                op.getMinScale().convertToDouble(), op.getConsecutiveHysteresis()};
  kernels::LossScaleState now{states[0]->getDouble(), states[1]->getInteger(), states[2]->getInteger()};
  kernels::LossScaleState next = kernels::reference::nextLossScale(rules, now, call.operands[0].getInteger() != 0);
  states[0]->set(0, next.scale);
  states[1]->set(0, static_cast<double>(next.goodSteps));
  states[2]->set(0, static_cast<double>(next.hysteresisLeft));
  return success();
}

static LogicalResult evaluateUpdateFp8Scale(OpCall &call) {
  auto op = cast<UpdateFp8ScaleOp>(call.op);
  SmallVector<Tensor *> states;
  for (StringRef name : {op.getScale(), op.getInverse(), op.getHistory(), op.getAmax()}) {
    auto entry = call.device.states.find(name);
    if (entry == call.device.states.end())
      return op.emitError("@") << name << " is no state that the rank holds";
    states.push_back(&entry->second);
  }
  std::vector<double> history = states[2]->toDoubles();
  double scale = kernels::reference::nextFp8Scale(states[0]->getDouble(), states[3]->getDouble(),
                                                  op.getLargest().convertToDouble(), history);
  states[0]->set(0, scale);
  states[1]->set(0, 1 / scale);
  for (auto [i, amax] : llvm::enumerate(history))
    states[2]->set(static_cast<int64_t>(i), amax);
  return success();
}

void hyc::interpreter::addUpdateOps(OpTable &table) {
  table.add<SumOfSquaresOp>(evaluateSumOfSquares);
  table.add<RoundSumOp>(evaluateRoundSum);
  table.add<GradientScaleOp>(evaluateGradientScale);
  table.add<AdamWOp>(evaluateAdam<AdamWOp>);
  table.add<AdamOp>(evaluateAdam<AdamOp>);
  table.add<LionOp>(evaluateLion);
  table.add<LambDirectionOp>(evaluateLambDirection);
  table.add<TrustRatioOp>(evaluateTrustRatio);
  table.add<LambOp>(evaluateLamb);
  table.add<SgdOp>(evaluateSgd);
  table.add<RefreshOp>(evaluateRefresh);
  table.add<UpdateLossScaleOp>(evaluateUpdateLossScale);
  table.add<UpdateFp8ScaleOp>(evaluateUpdateFp8Scale);
}
