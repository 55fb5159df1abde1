// Ops that compute each element alone, constants and iota. Integers wrap; dividing one by zero is an error.
#include "Ops/OpTable.h"
#include "Values/Initializers.h"
#include "Values/ScalarFunctions.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/Relations.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
using namespace hyc::interpreter::scalar;

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

static LogicalResult refuseIntegers(OpCall &call) {
  return call.op->emitError("the interpreter knows no '") << call.op->getName() << "' of integers";
}

template <typename T, typename Function> static void mapUnary(OpCall &call, Function function) {
  Tensor result = call.makeResult();
  const T *x = call.operands[0].data<T>();
  T *y = result.mutableData<T>();
  for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
    y[i] = function(x[i]);
  call.results.push_back(result);
}

template <typename Function> static LogicalResult floatUnary(OpCall &call) {
  if (!isFloat(call.resultKind()))
    return refuseIntegers(call);
  dispatchFloat(call.resultKind(), [&](auto zero) { mapUnary<decltype(zero)>(call, Function()); });
  return success();
}

template <typename Function> static LogicalResult anyUnary(OpCall &call) {
  ElementKind kind = call.resultKind();
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      mapUnary<T>(call, [kind](T x) { return wrapInteger(kind, Function()(x)); });
    else
      mapUnary<T>(call, Function());
  });
  return success();
}

template <typename Function> static LogicalResult booleanUnary(OpCall &call) {
  if (call.resultKind() != ElementKind::I1)
    return call.op->emitError("the interpreter negates booleans (i1), not ") << call.op->getResult(0).getType();
  mapUnary<int64_t>(call, Function());
  return success();
}

static LogicalResult evaluateStopGradient(OpCall &call) {
  call.results.push_back(call.operands[0]);
  return success();
}

static LogicalResult evaluateGelu(OpCall &call) {
  return cast<GeluOp>(call.op).getTanh() ? floatUnary<GeluTanh>(call) : floatUnary<Gelu>(call);
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

template <typename T, typename Function> static void mapBinary(OpCall &call, Function function) {
  Tensor result = call.makeResult();
  const T *x = call.operands[0].data<T>(), *y = call.operands[1].data<T>();
  T *z = result.mutableData<T>();
  for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
    z[i] = function(x[i], y[i]);
  call.results.push_back(result);
}

template <typename Function> static LogicalResult anyBinary(OpCall &call) {
  ElementKind kind = call.resultKind();
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>)
      mapBinary<T>(call, [kind](T x, T y) { return wrapInteger(kind, Function()(x, y)); });
    else
      mapBinary<T>(call, Function());
  });
  return success();
}

template <typename Function> static LogicalResult floatBinary(OpCall &call) {
  if (!isFloat(call.resultKind()))
    return refuseIntegers(call);
  dispatchFloat(call.resultKind(), [&](auto zero) { mapBinary<decltype(zero)>(call, Function()); });
  return success();
}

/// Booleans are integers of one bit.
template <typename Function> static LogicalResult integerBinary(OpCall &call) {
  if (isFloat(call.resultKind()))
    return call.op->emitError("the interpreter combines booleans or the bits of integers, not ")
           << call.op->getResult(0).getType();
  mapBinary<int64_t>(call, Function());
  return success();
}

/// Fails at the first right operand, if integer, for which `isBad` holds.
static LogicalResult checkIntegers(OpCall &call, bool (*isBad)(int64_t), StringRef what) {
  const Tensor &rhs = call.operands[1];
  for (int64_t i = 0; !isFloat(rhs.getKind()) && i < rhs.getNumElements(); ++i)
    if (isBad(rhs.getInteger(i)))
      return call.op->emitError(what) << ", at element " << i;
  return success();
}

static LogicalResult evaluateDiv(OpCall &call) {
  auto isZero = [](int64_t y) { return y == 0; };
  return failed(checkIntegers(call, isZero, "integer division by zero")) ? failure() : anyBinary<Div>(call);
}

static LogicalResult evaluateRem(OpCall &call) {
  auto isZero = [](int64_t y) { return y == 0; };
  return failed(checkIntegers(call, isZero, "integer remainder by zero")) ? failure() : anyBinary<Rem>(call);
}

static LogicalResult evaluatePow(OpCall &call) {
  auto isNegative = [](int64_t y) { return y < 0; };
  return failed(checkIntegers(call, isNegative, "negative integer power")) ? failure() : anyBinary<Pow>(call);
}

static LogicalResult evaluateGeluGrad(OpCall &call) {
  return cast<GeluGradOp>(call.op).getTanh() ? floatBinary<GeluTanhGrad>(call) : floatBinary<GeluGrad>(call);
}

//===----------------------------------------------------------------------===//
// Relations, choices, conversions and sources
//===----------------------------------------------------------------------===//

static LogicalResult evaluateCompare(OpCall &call) {
  ComparePredicate predicate = cast<CompareOp>(call.op).getPredicate();
  Tensor result = call.makeResult();
  int64_t *z = result.mutableData<int64_t>();
  dispatchStorage(call.operands[0].getKind(), [&](auto zero) {
    auto *x = call.operands[0].data<decltype(zero)>(), *y = call.operands[1].data<decltype(zero)>();
    for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
      z[i] = holds(predicate, x[i], y[i]);
  });
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateSelect(OpCall &call) {
  Tensor result = call.makeResult();
  const int64_t *condition = call.operands[0].data<int64_t>();
  dispatchStorage(call.resultKind(), [&](auto zero) {
    using T = decltype(zero);
    const T *x = call.operands[1].data<T>(), *y = call.operands[2].data<T>();
    T *z = result.mutableData<T>();
    for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
      z[i] = condition[i] ? x[i] : y[i];
  });
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateConvert(OpCall &call) {
  call.results.push_back(call.operands[0].converted(call.resultKind()));
  return success();
}

static LogicalResult evaluateConstant(OpCall &call) {
  FailureOr<Tensor> value = denseValue(call.op, cast<ConstantOp>(call.op).getValue(), call.device.options.arithmetic);
  if (failed(value))
    return failure();
  call.results.push_back(*value);
  return success();
}

static LogicalResult evaluateIota(OpCall &call) {
  int64_t dim = static_cast<int64_t>(cast<IotaOp>(call.op).getDim());
  Tensor result = call.makeResult();
  int64_t size = result.getDim(dim), inner = rowMajorStrides(result.getShape())[dim];
  dispatchStorage(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    T *data = result.mutableData<T>();
    for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
      data[i] = static_cast<T>(isFloat(result.getKind()) ? i / inner % size
                                                         : wrapInteger(result.getKind(), i / inner % size));
  });
  call.results.push_back(result);
  return success();
}

template <typename Function> static OpHandler handlerOf(Row<Function, 1, Domain::any>) { return anyUnary<Function>; }
template <typename Function> static OpHandler handlerOf(Row<Function, 1, Domain::floats>) {
  return floatUnary<Function>;
}
template <typename Function> static OpHandler handlerOf(Row<Function, 1, Domain::booleans>) {
  return booleanUnary<Function>;
}
template <typename Function> static OpHandler handlerOf(Row<Function, 2, Domain::any>) { return anyBinary<Function>; }
template <typename Function> static OpHandler handlerOf(Row<Function, 2, Domain::floats>) {
  return floatBinary<Function>;
}
template <typename Function> static OpHandler handlerOf(Row<Function, 2, Domain::integers>) {
  return integerBinary<Function>;
}

void hyc::interpreter::addElementwiseOps(OpTable &table) {
  forEachFunction([&](auto row) { table.add(std::string("hyc.") + row.name, handlerOf(row)); });
  // What an attribute chooses, and what integers cannot all be computed with.
  table.add<StopGradientOp>(evaluateStopGradient);
  table.add<GeluOp>(evaluateGelu);
  table.add<GeluGradOp>(evaluateGeluGrad);
  table.add<DivOp>(evaluateDiv);
  table.add<RemOp>(evaluateRem);
  table.add<PowOp>(evaluatePow);
  table.add<CompareOp>(evaluateCompare);
  table.add<SelectOp>(evaluateSelect);
  table.add<ConvertOp>(evaluateConvert);
  table.add<ConstantOp>(evaluateConstant);
  table.add<IotaOp>(evaluateIota);
}
