// Norms, factors and updates of whole states.
#include "OpTable.h"
#include "dialects/Hyc/HycDialect.h"
#include "kernels/adamw/reference.h"
#include "kernels/sum_of_squares/reference.h"
#include <cmath>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

/// The floating-point states of these names on this rank, all of one kind and size; a diagnostic otherwise.
static LogicalResult findStates(OpCall &call, ArrayRef<StringRef> symbols, SmallVectorImpl<Tensor *> &states) {
  for (StringRef symbol : symbols) {
    auto entry = call.device.states.find(symbol);
    if (entry == call.device.states.end())
      return call.op->emitError("@") << symbol << " is not held by the rank that executes this";
    Tensor &state = entry->second;
    if (!isFloat(state.getKind()))
      return call.op->emitError("needs a floating-point state, but @") << symbol << " is " << state.describeType();
    if (!states.empty() && (state.getKind() != states[0]->getKind() || state.getShape() != states[0]->getShape()))
      return call.op->emitError("@") << symbol << " is " << state.describeType() << ", expected "
                                     << states[0]->describeType() << " as @" << symbols[0];
    states.push_back(&state);
  }
  return success();
}

static LogicalResult checkScalars(OpCall &call) {
  for (auto [index, operand] : llvm::enumerate(call.operands))
    if (operand.getNumElements() != 1)
      return call.op->emitError("operand ") << index << " is " << operand.describeType() << ", expected a scalar";
  return success();
}

static LogicalResult evaluateSumOfSquares(OpCall &call) {
  double total = 0;
  for (auto name : cast<SumOfSquaresOp>(call.op).getStates().getAsRange<FlatSymbolRefAttr>()) {
    SmallVector<Tensor *> states;
    if (failed(findStates(call, {name.getValue()}, states)))
      return failure();
    total += dispatchFloat(states[0]->getKind(), [&](auto zero) {
      return kernels::reference::sumOfSquares(states[0]->data<decltype(zero)>(), states[0]->getNumElements());
    });
  }
  call.results.push_back(Tensor::splat(call.resultKind(), call.resultShape(), total));
  return success();
}

static LogicalResult evaluateGradientScale(OpCall &call) {
  auto op = cast<GradientScaleOp>(call.op);
  if (failed(checkScalars(call)))
    return failure();
  double count = call.operands[1].getDouble();
  double norm = count == 0 ? 0 : std::sqrt(call.operands[0].getDouble()) / count;
  double clip = 1;
  if (std::optional<APFloat> maxNorm = op.getMaxNorm())
    clip = std::min(1.0, maxNorm->convertToDouble() / (norm + 1e-6));
  double scale = count == 0 ? 0 : clip / count;
  call.results.push_back(Tensor::splat(call.resultKind(0), call.resultShape(0), scale));
  call.results.push_back(Tensor::splat(call.resultKind(1), call.resultShape(1), norm));
  return success();
}

static LogicalResult evaluateAdamW(OpCall &call) {
  auto op = cast<AdamWOp>(call.op);
  SmallVector<Tensor *> states;
  if (failed(checkScalars(call)) ||
      failed(findStates(call, {op.getParam(), op.getGradient(), op.getM(), op.getV()}, states)))
    return failure();
  kernels::AdamWParams params;
  params.lr = call.operands[0].getDouble();
  params.step = call.operands[1].getInteger();
  params.gradScale = call.operands[2].getDouble();
  params.beta1 = op.getBeta1().convertToDouble();
  params.beta2 = op.getBeta2().convertToDouble();
  params.epsilon = op.getEpsilon().convertToDouble();
  params.weightDecay = op.getWeightDecay().convertToDouble();
  dispatchFloat(states[0]->getKind(), [&](auto zero) {
    using T = decltype(zero);
    kernels::reference::adamw(params, states[0]->getNumElements(), states[0]->mutableData<T>(), states[1]->data<T>(),
                              states[2]->mutableData<T>(), states[3]->mutableData<T>());
  });
  return success();
}

namespace {
template <typename T> struct SgdFactors { T lr, scale, momentum, weightDecay; };
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
  SmallVector<StringRef> names{op.getParam(), op.getGradient()};
  if (op.getVelocity())
    names.push_back(*op.getVelocity());
  SmallVector<Tensor *> states;
  if (failed(checkScalars(call)) || failed(findStates(call, names, states)))
    return failure();
  dispatchFloat(states[0]->getKind(), [&](auto zero) {
    using T = decltype(zero);
    SgdFactors<T> factors{static_cast<T>(call.operands[0].getDouble()), static_cast<T>(call.operands[1].getDouble()),
                          static_cast<T>(op.getMomentum().convertToDouble()),
                          static_cast<T>(op.getWeightDecay().convertToDouble())};
    updateBySgd<T>(factors, states[0]->getNumElements(), states[0]->mutableData<T>(), states[1]->data<T>(),
                   states.size() > 2 ? states[2]->mutableData<T>() : nullptr);
  });
  return success();
}

void hyc::interpreter::addUpdateOps(OpTable &table) {
  table.add<SumOfSquaresOp>(evaluateSumOfSquares);
  table.add<GradientScaleOp>(evaluateGradientScale);
  table.add<AdamWOp>(evaluateAdamW);
  table.add<SgdOp>(evaluateSgd);
}
