// Elementwise kernels of the rank dialect: the body, op by op, over blocks of elements.
#include "RankCalls.h"
#include "ScalarFunctions.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
using namespace hyc::interpreter::scalar;

namespace {
/// `function` over every element; nothing happens, and it gives false, where the name is another's.
template <typename T> struct Named {
  StringRef name;
  ArrayRef<Tensor> operands;
  Tensor &result;

  template <typename Function> bool unary(StringRef candidate, Function function) const {
    if (candidate != name)
      return false;
    const T *x = operands[0].data<T>();
    T *y = result.mutableData<T>();
    for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
      y[i] = function(x[i]);
    return true;
  }
  template <typename Function> bool binary(StringRef candidate, Function function) const {
    if (candidate != name)
      return false;
    const T *x = operands[0].data<T>(), *y = operands[1].data<T>();
    T *z = result.mutableData<T>();
    for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
      z[i] = function(x[i], y[i]);
    return true;
  }
};
} // namespace

template <typename T> static bool computeFloats(const Named<T> &f) {
  return f.unary("neg", Neg()) || f.unary("abs", Abs()) || f.unary("exp", Exp()) || f.unary("log", Log()) ||
         f.unary("sqrt", Sqrt()) || f.unary("rsqrt", Rsqrt()) || f.unary("reciprocal", Reciprocal()) ||
         f.unary("tanh", Tanh()) || f.unary("erf", Erf()) || f.unary("sin", Sin()) || f.unary("cos", Cos()) ||
         f.unary("relu", Relu()) || f.unary("sigmoid", Sigmoid()) || f.unary("gelu", Gelu()) ||
         f.unary("gelu_tanh", GeluTanh()) || f.binary("gelu_grad", GeluGrad()) ||
         f.binary("gelu_tanh_grad", GeluTanhGrad()) || f.binary("add", Add()) || f.binary("sub", Sub()) ||
         f.binary("mul", Mul()) || f.binary("div", Div()) || f.binary("pow", Pow()) || f.binary("max", Max()) ||
         f.binary("min", Min());
}

/// Integers and booleans; divisors have been checked.
static bool computeIntegers(const Named<int64_t> &f) {
  return f.unary("neg", Neg()) || f.unary("abs", Abs()) || f.unary("relu", Relu()) ||
         f.unary("not", [](int64_t x) { return x ^ 1; }) || f.binary("add", Add()) || f.binary("sub", Sub()) ||
         f.binary("mul", Mul()) || f.binary("div", Div()) || f.binary("pow", Pow()) || f.binary("max", Max()) ||
         f.binary("min", Min()) || f.binary("and", And()) || f.binary("or", Or());
}

template <typename T> static void compareInto(StringRef relation, ArrayRef<Tensor> operands, Tensor &result) {
  const T *x = operands[0].data<T>(), *y = operands[1].data<T>();
  int64_t *z = result.mutableData<int64_t>();
  for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
    z[i] = relation == "eq"   ? x[i] == y[i]
           : relation == "ne" ? x[i] != y[i]
           : relation == "lt" ? x[i] < y[i]
           : relation == "le" ? x[i] <= y[i]
           : relation == "gt" ? x[i] > y[i]
                              : x[i] >= y[i];
}

static Tensor selectFrom(ArrayRef<Tensor> operands) {
  Tensor result(operands[1].getKind(), operands[1].getShape());
  dispatchStorage(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
      result.mutableData<T>()[i] = (operands[0].data<int64_t>()[i] ? operands[1] : operands[2]).data<T>()[i];
  });
  return result;
}

static FailureOr<Tensor> compute(rank::ScalarComputeOp op, ArrayRef<Tensor> operands, ElementKind kind) {
  StringRef name = op.getFunction();
  Tensor result(kind, operands[0].getShape());
  if (name == "convert")
    return operands[0].converted(kind);
  if (name == "select")
    return selectFrom(operands);
  if (name.consume_front("compare_")) {
    dispatchStorage(operands[0].getKind(), [&](auto zero) { compareInto<decltype(zero)>(name, operands, result); });
    return result;
  }
  bool known = false;
  if (kind == ElementKind::F32)
    known = computeFloats(Named<float>{name, operands, result});
  else if (kind == ElementKind::F64)
    known = computeFloats(Named<double>{name, operands, result});
  else if (name == "div" && llvm::is_contained(operands[1].toDoubles(), 0.0))
    return op.emitError("integer division by zero"), failure();
  else
    known = computeIntegers(Named<int64_t>{name, operands, result});
  if (!known)
    return op.emitError("the interpreter knows no \"") << name << "\" of " << nameOf(kind), failure();
  for (int64_t i = 0; !isFloat(kind) && i < result.getNumElements(); ++i)
    result.mutableData<int64_t>()[i] = wrapInteger(kind, result.getInteger(i));
  return result;
}

/// The value of one op of the body for the whole space.
static FailureOr<Tensor> evaluate(Operation &op, ArrayRef<int64_t> space, Arithmetic arithmetic,
                                  const llvm::DenseMap<Value, Tensor> &values) {
  std::optional<ElementKind> kind = elementKind(op.getResult(0).getType(), arithmetic);
  if (!kind)
    return op.emitError("the interpreter computes with f32, f64, i64, i32 and i1"), failure();
  if (auto literal = dyn_cast<rank::LiteralOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(literal.getValue()))
      return Tensor::splat(*kind, space, number.getValueAsDouble());
    APInt bits = cast<IntegerAttr>(literal.getValue()).getValue();
    return Tensor::splat(*kind, space,
                         static_cast<double>(*kind == ElementKind::I1 ? bits.getZExtValue() : bits.getSExtValue()));
  }
  if (auto index = dyn_cast<rank::IndexOp>(op)) {
    Tensor result(*kind, space);
    int64_t dim = static_cast<int64_t>(index.getDim()), inner = rowMajorStrides(space)[dim];
    for (int64_t i = 0; i < result.getNumElements(); ++i)
      result.set(i, static_cast<double>(i / inner % space[dim]));
    return result;
  }
  auto computation = dyn_cast<rank::ScalarComputeOp>(op);
  if (!computation)
    return op.emitError("the interpreter cannot execute this in a kernel"), failure();
  SmallVector<Tensor> operands;
  for (Value operand : op.getOperands())
    operands.push_back(values.find(operand)->second);
  return compute(computation, operands, *kind);
}

LogicalResult hyc::interpreter::executeLaunch(RankCall &call, rank::LaunchOp op) {
  rank::KernelOp kernel = rank::lookupKernel(op);
  ArrayRef<int64_t> space = kernel.getSpace();
  SmallVector<ArrayRef<int64_t>> strides;
  for (Attribute list : kernel.getStrides())
    strides.push_back(cast<DenseI64ArrayAttr>(list).asArrayRef());
  Block &body = kernel.getBody().front();
  llvm::DenseMap<Value, Tensor> values;
  for (auto [index, in] : llvm::enumerate(op.getIns())) {
    FailureOr<Tensor> value = call.memory.load(op, call.stridedAt(in, space, strides[index]));
    if (failed(value))
      return failure();
    values[body.getArgument(index)] = *value;
  }
  for (Operation &inner : body.without_terminator()) {
    FailureOr<Tensor> value = evaluate(inner, space, call.arithmetic, values);
    if (failed(value))
      return failure();
    values[inner.getResult(0)] = *value;
  }
  Operation *yield = body.getTerminator();
  for (auto [index, out] : llvm::enumerate(op.getOuts())) {
    Extent region = call.stridedAt(out, space, strides[op.getIns().size() + index]);
    if (failed(call.memory.store(op, region, values.find(yield->getOperand(index))->second)))
      return failure();
  }
  return success();
}
