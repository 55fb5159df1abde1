// aten operators that compute each element alone. Operands of different types meet in torch's common type first, since
// ONNX's operators want one type.
#include "Translator.h"

using namespace hyc::torchexport;

// Names as template arguments.
#define ONNX_NAME(name) constexpr char name[] = #name
namespace {
ONNX_NAME(Add);
ONNX_NAME(Sub);
ONNX_NAME(Mul);
ONNX_NAME(Div);
ONNX_NAME(Pow);
ONNX_NAME(Max);
ONNX_NAME(Min);
ONNX_NAME(And);
ONNX_NAME(Or);
ONNX_NAME(Equal);
ONNX_NAME(Less);
ONNX_NAME(LessOrEqual);
ONNX_NAME(Greater);
ONNX_NAME(GreaterOrEqual);
ONNX_NAME(Neg);
ONNX_NAME(Abs);
ONNX_NAME(Exp);
ONNX_NAME(Log);
ONNX_NAME(Sqrt);
ONNX_NAME(Reciprocal);
ONNX_NAME(Tanh);
ONNX_NAME(Erf);
ONNX_NAME(Sin);
ONNX_NAME(Cos);
ONNX_NAME(Relu);
ONNX_NAME(Sigmoid);

/// self OP other, in the common type.
template <const char *Type> void binary(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  node.finish(node.emit(Type, {node.operand("self", type), node.operand("other", type)}));
}

/// self ± alpha · other
template <const char *Type> void scaledSum(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  Name other = node.operand("other", type);
  if (double alpha = node.number("alpha", 1); alpha != 1)
    other = node.emit(Mul, {other, node.constant(type, alpha)});
  node.finish(node.emit(Type, {node.operand("self", type), other}));
}

/// Integers are divided as floats.
void divide(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  if (node.has("rounding_mode")) {
    node.error() << "rounds its quotient, which hyc does not";
    return;
  }
  type = isFloat(type) ? type : ScalarType::F32;
  node.finish(node.emit(Div, {node.operand("self", type), node.operand("other", type)}));
}

void power(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "exponent"});
  node.finish(node.emit(Pow, {node.operand("self", type), node.operand("exponent", type)}));
}

template <const char *Type> void compare(NodeTranslation &node) { binary<Type>(node); }

void notEqual(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  node.finish(node.emit("Not", {node.emit(Equal, {node.operand("self", type), node.operand("other", type)})}));
}

/// Numbers count as true where they are not 0.
template <const char *Type> void logical(NodeTranslation &node) {
  node.finish(node.emit(Type, {node.operand("self", ScalarType::Bool), node.operand("other", ScalarType::Bool)}));
}

template <const char *Type> void bitwise(NodeTranslation &node) {
  if (ScalarType type = node.commonType({"self", "other"}); type != ScalarType::Bool && !node.failed())
    node.error() << "combines the bits of integers, which hyc does only for booleans";
  else
    binary<Type>(node);
}

void negation(NodeTranslation &node) { node.finish(node.emit("Not", {node.operand("self", ScalarType::Bool)})); }

/// Integers become floats where the result is one.
template <const char *Type> void unary(NodeTranslation &node) {
  node.finish(node.emit(Type, {node.operand("self", node.resultMeta().type)}));
}

void reciprocalRoot(NodeTranslation &node) {
  node.finish(node.emit(Reciprocal, {node.emit(Sqrt, {node.operand("self", node.resultMeta().type)})}));
}

void silu(NodeTranslation &node) {
  Name x = node.tensor("self");
  node.finish(node.emit(Mul, {x, node.emit(Sigmoid, {x})}));
}

void gelu(NodeTranslation &node) {
  node.finish(
      node.emit("Gelu", {node.tensor("self")}, {{}, {}, {}, {{"approximate", node.text("approximate", "none")}}}));
}

void where(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  node.finish(node.emit(
      "Where", {node.operand("condition", ScalarType::Bool), node.operand("self", type), node.operand("other", type)}));
}

void maskedFill(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  node.finish(
      node.emit("Where", {node.operand("mask", ScalarType::Bool), node.operand("value", type), node.tensor("self")}));
}

void clamp(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name result = node.operand("self", type);
  if (node.has("min"))
    result = node.emit(Max, {result, node.operand("min", type)});
  if (node.has("max"))
    result = node.emit(Min, {result, node.operand("max", type)});
  node.finish(result);
}

void convert(NodeTranslation &node) { node.finish(node.cast(node.tensor("self"), node.resultMeta().type)); }

/// `src` in the type and the shape of `self`.
void copy(NodeTranslation &node) {
  Name values = node.cast(node.tensor("src"), node.metaOf("self").type);
  node.finish(node.emit("Expand", {values, node.emit("Shape", {node.tensor("self")})}));
}

void keep(NodeTranslation &node) { node.finish(node.tensor("self")); }

/// Checks of what hyc knows when compiling: nothing to compute.
void drop(NodeTranslation &node) {}

void dropout(NodeTranslation &node) {
  if (node.boolean("train", false) && node.number("p", 0.5) != 0)
    node.error() << "drops values at random; export the model in eval mode or with dropout 0";
  else
    node.finish(node.tensor(node.has("input") ? "input" : "self")); // the latter where it writes in place
}
} // namespace

void hyc::torchexport::addElementwise(TranslationTable &table) {
  for (const char *overload : {"Tensor", "Scalar"}) {
    auto row = [&](const std::string &name, Translation translation) {
      table["aten." + name + "." + overload] = translation;
    };
    row("add", scaledSum<Add>);
    row("sub", scaledSum<Sub>);
    row("mul", binary<Mul>);
    row("div", divide);
    row("eq", compare<Equal>);
    row("ne", notEqual);
    row("lt", compare<Less>);
    row("le", compare<LessOrEqual>);
    row("gt", compare<Greater>);
    row("ge", compare<GreaterOrEqual>);
    row("__and__", bitwise<And>);
    row("__or__", bitwise<Or>);
    row("bitwise_and", bitwise<And>);
    row("bitwise_or", bitwise<Or>);
    row("masked_fill", maskedFill);
  }
  table["aten.pow.Tensor_Scalar"] = power;
  table["aten.pow.Tensor_Tensor"] = power;
  table["aten.maximum.default"] = binary<Max>;
  table["aten.minimum.default"] = binary<Min>;
  table["aten.logical_and.default"] = logical<And>;
  table["aten.logical_or.default"] = logical<Or>;
  table["aten.logical_not.default"] = negation;
  table["aten.neg.default"] = unary<Neg>;
  table["aten.abs.default"] = unary<Abs>;
  table["aten.exp.default"] = unary<Exp>;
  table["aten.log.default"] = unary<Log>;
  table["aten.sqrt.default"] = unary<Sqrt>;
  table["aten.rsqrt.default"] = reciprocalRoot;
  table["aten.reciprocal.default"] = unary<Reciprocal>;
  table["aten.tanh.default"] = unary<Tanh>;
  table["aten.erf.default"] = unary<Erf>;
  table["aten.sin.default"] = unary<Sin>;
  table["aten.cos.default"] = unary<Cos>;
  table["aten.relu.default"] = unary<Relu>;
  table["aten.sigmoid.default"] = unary<Sigmoid>;
  table["aten.silu.default"] = silu;
  table["aten.gelu.default"] = gelu;
  table["aten.clamp.default"] = clamp;
  for (const char *overload : {"self", "Scalar", "ScalarOther", "ScalarSelf"})
    table[std::string("aten.where.") + overload] = where;
  for (const char *name : {"to.dtype", "to.dtype_layout", "to.device", "to.other", "_to_copy.default"})
    table[std::string("aten.") + name] = convert;
  for (const char *name : {"alias.default", "detach.default", "detach_.default", "clone.default", "contiguous.default",
                           "lift_fresh_copy.default"})
    table[std::string("aten.") + name] = keep;
  for (const char *name : {"_assert_tensor_metadata.default", "_assert_scalar.default", "_assert_async.msg",
                           "sym_constrain_range.default", "sym_constrain_range_for_size.default"})
    table[std::string("aten.") + name] = drop;
  table["aten.copy.default"] = copy;
  table["aten.dropout.default"] = dropout;
}
