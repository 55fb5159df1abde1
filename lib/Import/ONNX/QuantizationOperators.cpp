// Quantized tensors, computed as what they stand for. Integer products are sums in f64, which is exact far beyond 32
// bits.
#include "Expansion.h"

#include <cmath>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

namespace {
/// A scale or zero point along a dimension, or one number.
Binding along(Expansion &e, const Binding &vector, const Binding &x, int64_t axis) {
  if (!e.ok() || vector.type.getNumElements() == 1)
    return e.ok() ? e.reshape(vector, {}) : Binding();
  llvm::SmallVector<int64_t> shape(x.type.getRank(), 1);
  if (axis < 0 || axis >= x.type.getRank() || vector.type.getNumElements() != x.type.getDimSize(axis)) {
    e.fail("has " + std::to_string(vector.type.getNumElements()) + " scales or zero points along dimension " +
           std::to_string(axis) + ", expected one for each of its elements");
    return {};
  }
  shape[axis] = vector.type.getNumElements();
  return e.reshape(vector, shape);
}

/// x rounded to even, shifted by the zero point, within the bounds of the integer type.
Binding quantized(Expansion &e, const Binding &scaled, const Binding &zero, IntegerType type) {
  Type real = scaled.type.getElementType();
  double lowest = type.isUnsigned() ? 0 : -std::ldexp(1.0, static_cast<int>(type.getWidth()) - 1);
  double highest = lowest + std::ldexp(1.0, static_cast<int>(type.getWidth())) - 1;
  Binding shifted = e.add(e("Round", {scaled}), e.cast(zero, real));
  Binding bounded = e("Min", {e("Max", {shifted, e.number(scaled, lowest)}), e.number(scaled, highest)});
  return e.cast(bounded, type);
}

/// The element type whose number an attribute gives, `otherwise` where it gives none; reports one that hyc does not
/// have.
Type getType(NodeImport &node, llvm::StringRef attribute, Type otherwise) {
  const int64_t given = node.getInt(attribute, 0);
  if (given == 0)
    return otherwise;
  const bool fits = given == static_cast<int32_t>(given);
  Type type = fits ? OnnxFile::getElementType(node.importer().getContext(), static_cast<int32_t>(given)) : Type();
  if (!type)
    node.error() << "has the '" << attribute << "' " << OnnxFile::describeDataType(given);
  return type;
}

bool hasBlocks(NodeImport &node) {
  const int64_t size = node.getInt("block_size", 0);
  if (size != 0)
    node.error() << "has a 'block_size' of " << size << ", expected scales of the whole tensor or along one dimension";
  return size != 0;
}

LogicalResult importQuantizeLinear(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  int64_t axis = node.getInt("axis", 1);
  axis = axis < 0 ? axis + x.type.getRank() : axis;
  Type byte = node.importer().getBuilder().getIntegerType(8, false);
  Type ofZero = node.has(2) ? node.input(2).type.getElementType() : Type();
  Type element = getType(node, "output_dtype", ofZero ? ofZero : byte);
  Type real = getType(node, "precision", node.input(1).type.getElementType());
  if (!element || !real || hasBlocks(node))
    return failure();
  auto type = dyn_cast<IntegerType>(element);
  if (!type || type.getWidth() == 1 || !isa<FloatType>(x.type.getElementType()) || !isa<FloatType>(real) ||
      (ofZero && ofZero != element))
    return node.error() << "quantizes " << x.type << " by " << real << " to " << element
                        << ", expected floats to integers, of the zero point's type where there is one";
  x = e.cast(x, real);
  Binding zero = node.has(2) ? node.input(2) : e.number(e.number(x, 0), 0);
  Binding scaled = e.div(x, along(e, e.cast(node.input(1), real), x, axis));
  return e.finish(e.ok() ? quantized(e, scaled, along(e, zero, x, axis), type) : Binding());
}

Binding dequantized(Expansion &e, const Binding &x, const Binding &scale, const Binding *zero, int64_t axis) {
  Type real = scale.type.getElementType();
  Binding value = e.cast(x, real);
  if (zero)
    value = e.sub(value, e.cast(along(e, *zero, x, axis), real));
  return e.mul(value, along(e, scale, x, axis));
}

LogicalResult importDequantizeLinear(NodeImport &node) {
  Expansion e(node);
  int64_t axis = node.getInt("axis", 1);
  axis = axis < 0 ? axis + node.input(0).type.getRank() : axis;
  Type real = getType(node, "output_dtype", node.input(1).type.getElementType());
  if (!real || hasBlocks(node))
    return failure();
  if (!isa<FloatType>(real))
    return node.error() << "has the 'output_dtype' " << real << ", expected floating point";
  Binding result = dequantized(e, node.input(0), node.input(1), node.has(2) ? &node.input(2) : nullptr, axis);
  return e.finish(e.cast(result, real));
}

/// Scale and zero point from the range, which is made to hold 0.
LogicalResult importDynamicQuantizeLinear(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0), zero = e.number(x, 0), most = e.number(x, 255);
  llvm::SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, x.type.getRank()));
  Binding low = e("Min", {e.reduce("ReduceMin", x, axes, false), zero});
  Binding high = e("Max", {e.reduce("ReduceMax", x, axes, false), zero});
  Binding scale = e.div(e.sub(high, low), most);
  Type byte = node.importer().getBuilder().getIntegerType(8, false);
  Binding start = e("Min", {e("Max", {e.div(e.sub(zero, low), scale), zero}), most});
  Binding point = e.cast(e("Round", {start}), byte);
  if (!e.ok())
    return failure();
  return e.finish({quantized(e, e.div(x, scale), point, cast<IntegerType>(byte)), scale, point});
}

/// What is left of integers without their zero point, in f64.
Binding centred(Expansion &e, NodeImport &node, const Binding &x, int zero, bool isRow = false) {
  Type real = node.importer().getBuilder().getF64Type();
  Binding value = e.cast(x, real);
  if (!node.has(zero) || !e.ok())
    return value;
  Binding point = e.cast(node.input(zero), real);
  if (isRow && point.type.getNumElements() > 1) // one a row of the left operand
    point = e.reshape(point, {point.type.getNumElements(), 1});
  else if (point.type.getNumElements() == 1)
    point = e.reshape(point, {});
  return e.sub(value, point);
}

LogicalResult importMatMulInteger(NodeImport &node) {
  Expansion e(node);
  Binding product = e("MatMul", {centred(e, node, node.input(0), 2, true), centred(e, node, node.input(1), 3)});
  return e.finish(e.cast(product, node.importer().getBuilder().getI32Type()));
}

LogicalResult importQLinearMatMul(NodeImport &node) {
  Expansion e(node);
  auto type = dyn_cast<IntegerType>(node.input(7).type.getElementType());
  if (!type)
    return node.error() << "has the zero point " << node.input(7).type << ", expected an integer";
  Binding product = e("MatMul", {centred(e, node, node.input(0), 2, true), centred(e, node, node.input(3), 5)});
  Type real = node.importer().getBuilder().getF64Type();
  auto scale = [&](int index) { return e.ok() ? e.reshape(e.cast(node.input(index), real), {}) : Binding(); };
  Binding scaled = e.div(e.mul(product, e.mul(scale(1), scale(4))), scale(6));
  return e.finish(e.ok() ? quantized(e, scaled, e.reshape(node.input(7), {}), type) : Binding());
}

/// A convolution's attributes, passed on.
llvm::SmallVector<NamedValue> windowAttributes(NodeImport &node) {
  llvm::SmallVector<NamedValue> attributes{{"auto_pad", node.getString("auto_pad", "NOTSET")},
                                           {"group", node.getInt("group", 1)}};
  for (llvm::StringRef name : {"strides", "dilations", "pads", "kernel_shape"})
    if (std::optional<llvm::SmallVector<int64_t>> list = node.getInts(name))
      attributes.push_back({name, *list});
  return attributes;
}

/// In f32: exact while the sums stay below 2²⁴.
Binding convolved(Expansion &e, NodeImport &node, int w, int xZero, int wZero) {
  Type single = node.importer().getBuilder().getF32Type();
  Binding x = e.cast(centred(e, node, node.input(0), xZero), single);
  Binding weights = e.cast(centred(e, node, node.input(w), wZero), single);
  return e("Conv", {x, weights}, windowAttributes(node));
}

LogicalResult importConvInteger(NodeImport &node) {
  Expansion e(node);
  return e.finish(e.cast(convolved(e, node, 1, 2, 3), node.importer().getBuilder().getI32Type()));
}

LogicalResult importQLinearConv(NodeImport &node) {
  Expansion e(node);
  auto type = dyn_cast<IntegerType>(node.input(7).type.getElementType());
  if (!type || node.has(8) || node.input(4).type.getNumElements() != 1)
    return node.error() << "has a bias, or scales for each channel, which hyc does not support here";
  Binding y = convolved(e, node, 3, 2, 5);
  auto scale = [&](int index) { return e.ok() ? e.reshape(node.input(index), {}) : Binding(); };
  Binding scaled = e.div(e.mul(y, e.mul(scale(1), scale(4))), scale(6));
  return e.finish(e.ok() ? quantized(e, scaled, e.reshape(node.input(7), {}), type) : Binding());
}
} // namespace

void hyc::onnx::addQuantizationOperators(OperatorTable &table) {
  table["QuantizeLinear"] = {
      importQuantizeLinear,
      {tensor("x"), tensor("y_scale").ranks(0, 1), tensor("y_zero_point").ranks(0, 1).optional()}};
  table["DequantizeLinear"] = {
      importDequantizeLinear,
      {tensor("x").integer(), tensor("x_scale").real().ranks(0, 1), tensor("x_zero_point").ranks(0, 1).optional()}};
  table["DynamicQuantizeLinear"] = {importDynamicQuantizeLinear, {tensor("x").real()}};
  table["MatMulInteger"] = {importMatMulInteger,
                            {tensor("A").integer().ranks(1), tensor("B").integer().ranks(1),
                             tensor("a_zero_point").integer().ranks(0, 1).optional(),
                             tensor("b_zero_point").integer().ranks(0, 1).optional()}};
  table["QLinearMatMul"] = {importQLinearMatMul,
                            {tensor("a").integer().ranks(1), one("a_scale").real(), one("a_zero_point").integer(),
                             tensor("b").integer().ranks(1), one("b_scale").real(), one("b_zero_point").integer(),
                             one("y_scale").real(), one("y_zero_point").integer()}};
  table["ConvInteger"] = {importConvInteger,
                          {tensor("x").integer().ranks(3), tensor("w").integer().ranks(3),
                           one("x_zero_point").integer().optional(),
                           tensor("w_zero_point").integer().ranks(0, 1).optional()}};
  table["QLinearConv"] = {importQLinearConv,
                          {tensor("x").integer().ranks(3), one("x_scale").real(), one("x_zero_point").integer(),
                           tensor("w").integer().ranks(3), tensor("w_scale").real().ranks(0, 1),
                           tensor("w_zero_point").integer().ranks(0, 1), one("y_scale").real(),
                           one("y_zero_point").integer(), tensor("B").integer().rank(1).optional()}};
}
