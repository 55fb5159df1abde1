// aten operators that compute each element alone. Operands of different types meet in torch's common type first, since
// ONNX's operators want one type.
#include "Translator.h"

#include <cmath>
#include <limits>

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
ONNX_NAME(Xor);
ONNX_NAME(Floor);
ONNX_NAME(Ceil);
ONNX_NAME(Round);
ONNX_NAME(Sign);
ONNX_NAME(Tan);
ONNX_NAME(Asin);
ONNX_NAME(Acos);
ONNX_NAME(Atan);
ONNX_NAME(Sinh);
ONNX_NAME(Cosh);
ONNX_NAME(Asinh);
ONNX_NAME(Acosh);
ONNX_NAME(Atanh);

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

/// other - alpha · self
void turnedDifference(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  Name self = node.operand("self", type);
  if (double alpha = node.number("alpha", 1); alpha != 1)
    self = node.emit(Mul, {self, node.constant(type, alpha)});
  node.finish(node.emit(Sub, {node.operand("other", type), self}));
}

/// Towards 0. ONNX has no operator for it.
Name truncated(NodeTranslation &node, const Name &value) {
  return node.emit(Mul, {node.emit(Sign, {value}), node.emit(Floor, {node.emit(Abs, {value})})});
}

/// What a division of floats leaves, with the dividend's sign: exact, as a product of the quotient would not be. And
/// where rounding down goes one beyond truncating: something is left, of another sign than the divisor.
struct Rest {
  Name value, isBelow;
};

Rest restOf(NodeTranslation &node, const Name &self, const Name &other, ScalarType type) {
  Name rest = node.emit("Mod", {self, other}, {{{"fmod", 1}}}), zero = node.constant(type, 0);
  Name differs = node.emit(Xor, {node.emit(Less, {rest, zero}), node.emit(Less, {other, zero})});
  return {rest, node.emit(And, {differs, node.emit("Not", {node.emit(Equal, {rest, zero})})})};
}

/// What a division leaves, with the divisor's sign as in Python, or with the dividend's as in C.
Name remainderOf(NodeTranslation &node, const Name &self, const Name &other, ScalarType type, bool isPythons) {
  if (!isFloat(type) || !isPythons)
    return node.emit("Mod", {self, other}, {{{"fmod", isPythons ? 0 : 1}}});
  Rest rest = restOf(node, self, other, type);
  return node.emit("Where", {rest.isBelow, node.emit(Add, {rest.value, other}), rest.value});
}

/// Down to whole numbers: what is left is taken off before dividing, as torch does it, since a quotient that is rounded
/// may come out as the next one.
Name floorOfQuotient(NodeTranslation &node, const Name &self, const Name &other, ScalarType type) {
  Rest rest = restOf(node, self, other, type);
  Name quotient = node.emit(Div, {node.emit(Sub, {self, rest.value}), other});
  Name one = node.constant(type, 1);
  Name whole = node.emit(Round, {node.emit("Where", {rest.isBelow, node.emit(Sub, {quotient, one}), quotient})});
  // By 0: an infinity, or no number.
  Name isNone = node.emit(Equal, {other, node.constant(type, 0)});
  return node.emit("Where", {isNone, node.emit(Floor, {node.emit(Div, {self, other})}), whole});
}

template <bool IsPythons> void remainder(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  node.finish(remainderOf(node, node.operand("self", type), node.operand("other", type), type, IsPythons));
}

/// Down, or towards 0 where `truncates`, in the operands' own type.
void divideWhole(NodeTranslation &node, bool truncates) {
  ScalarType type = node.commonType({"self", "other"});
  Name self = node.operand("self", type), other = node.operand("other", type);
  if (isFloat(type)) {
    node.finish(truncates ? truncated(node, node.emit(Div, {self, other})) : floorOfQuotient(node, self, other, type));
    return;
  }
  // Without what is left over a division of integers has nothing to round.
  Name left = remainderOf(node, self, other, type, /*isPythons=*/!truncates);
  node.finish(node.emit(Div, {node.emit(Sub, {self, left}), other}));
}

void floorDivide(NodeTranslation &node) { divideWhole(node, /*truncates=*/false); }

/// Integers are divided as floats.
void divide(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  if (node.has("rounding_mode"))
    return divideWhole(node, node.text("rounding_mode", "") == "trunc");
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

template <bool ToRadians> void turnAngle(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  node.finish(node.emit(Mul, {node.operand("self", type), node.constant(type, ToRadians ? M_PI / 180 : 180 / M_PI)}));
}

/// The other one where one is no number; of two that are equal the gradient is the first's, as torch has it.
template <const char *IsBeyond> void extremeNumber(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  Name self = node.operand("self", type), other = node.operand("other", type);
  Name isSelf = node.emit(IsBeyond, {self, other});
  if (isFloat(type))
    isSelf = node.emit(Or, {isSelf, node.emit("IsNaN", {other})});
  node.finish(node.emit("Where", {isSelf, self, other}));
}

/// 0 below 0, 1 above, and what the other operand says there.
void heaviside(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "values"});
  Name self = node.operand("self", type), zero = node.constant(type, 0);
  Name step = node.cast(node.emit(Greater, {self, zero}), type);
  node.finish(node.emit("Where", {node.emit(Equal, {self, zero}), node.operand("values", type), step}));
}

void square(NodeTranslation &node) {
  Name self = node.tensor("self");
  node.finish(node.emit(Mul, {self, self}));
}

void fraction(NodeTranslation &node) {
  Name self = node.tensor("self");
  node.finish(node.emit(Sub, {self, truncated(node, self)}));
}

void truncate(NodeTranslation &node) {
  Name self = node.tensor("self");
  node.finish(isFloat(node.metaOf("self").type) ? truncated(node, self) : self);
}

/// Of floats; integers are whole already.
template <const char *Type> void roundTo(NodeTranslation &node) {
  Name self = node.tensor("self");
  node.finish(isFloat(node.metaOf("self").type) ? node.emit(Type, {self}) : self);
}

/// factor · log(x), of other bases than e.
void logarithm(NodeTranslation &node, double factor) {
  ScalarType type = node.resultMeta().type;
  node.finish(node.emit(Mul, {node.emit(Log, {node.operand("self", type)}), node.constant(type, factor)}));
}
void log2(NodeTranslation &node) { logarithm(node, 1 / std::log(2.0)); }
void log10(NodeTranslation &node) { logarithm(node, 1 / std::log(10.0)); }

/// The angle of (other, self). Either ratio is at most 1, so that no slope is infinite but that of (0, 0).
void angle(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto number = [&](double value) { return node.constant(type, value); };
  Name y = node.operand("self", type), x = node.operand("other", type), zero = number(0), one = number(1);
  Name isFlat = node.emit(GreaterOrEqual, {node.emit(Abs, {x}), node.emit(Abs, {y})});
  Name isNone = node.emit("And", {node.emit(Equal, {x, zero}), node.emit(Equal, {y, zero})});
  // What is divided by, on the side that is not asked for, is 1.
  Name flatBy = node.emit("Where", {node.emit("And", {isFlat, node.emit("Not", {isNone})}), x, one});
  Name steepBy = node.emit("Where", {isFlat, one, y});
  Name half = node.emit("Where", {node.emit(Less, {y, zero}), number(-M_PI), number(M_PI)});
  Name back = node.emit("Where", {node.emit(Less, {x, zero}), half, zero});
  Name flat = node.emit(Add, {node.emit(Atan, {node.emit(Div, {y, flatBy})}), back});
  Name quarter = node.emit("Where", {node.emit(Less, {y, zero}), number(-M_PI_2), number(M_PI_2)});
  Name steep = node.emit(Sub, {quarter, node.emit(Atan, {node.emit(Div, {x, steepBy})})});
  node.finish(node.emit("Where", {isFlat, flat, steep}));
}

void powerOfTwo(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  node.finish(node.emit(Pow, {node.constant(type, 2), node.operand("self", type)}));
}

/// self + value · tensor1 · tensor2, or with a quotient.
template <const char *Type> void addedPair(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name pair = node.emit(Type, {node.operand("tensor1", type), node.operand("tensor2", type)});
  if (double value = node.number("value", 1); value != 1)
    pair = node.emit(Mul, {pair, node.constant(type, value)});
  node.finish(node.emit(Add, {node.operand("self", type), pair}));
}

/// From self to end, as far as the weight says.
void interpolate(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name self = node.operand("self", type), way = node.emit(Sub, {node.operand("end", type), self});
  node.finish(node.emit(Add, {self, node.emit(Mul, {node.operand("weight", type), way})}));
}

constexpr char IsNaN[] = "IsNaN", IsInf[] = "IsInf";
template <const char *Type> void classify(NodeTranslation &node) {
  node.finish(node.emit(Type, {node.operand("self", ScalarType::F32)}));
}

void isFinite(NodeTranslation &node) {
  Name self = node.operand("self", ScalarType::F32);
  node.finish(node.emit("Not", {node.emit("Or", {node.emit(IsNaN, {self}), node.emit(IsInf, {self})})}));
}

/// A number for what is none, and for each infinity; by default 0 and the largest of the type.
void replaceNonFinite(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  if (!isFloat(type)) {
    node.finish(node.tensor("self"));
    return;
  }
  const double most = type == ScalarType::F16    ? 65504
                      : type == ScalarType::BF16 ? 3.3895313892515355e38
                      : type == ScalarType::F32  ? std::numeric_limits<float>::max()
                                                 : std::numeric_limits<double>::max();
  auto replaced = [&](const Name &where, double by, const Name &value) {
    return node.emit("Where", {where, node.constant(type, by), value});
  };
  auto equals = [&](double infinity) { return node.emit(Equal, {node.tensor("self"), node.constant(type, infinity)}); };
  const double infinity = std::numeric_limits<double>::infinity();
  Name self = node.tensor("self");
  Name result = replaced(node.emit(IsNaN, {self}), node.number("nan", 0), self);
  result = replaced(equals(infinity), node.number("posinf", most), result);
  node.finish(replaced(equals(-infinity), node.number("neginf", -most), result));
}

template <bool IsPositive> void isInfinity(NodeTranslation &node) {
  const double infinity = std::numeric_limits<double>::infinity();
  Name own = node.constant(ScalarType::F32, IsPositive ? infinity : -infinity);
  node.finish(node.emit(Equal, {node.operand("self", ScalarType::F32), own}));
}

/// Whether each of two is as far from the other as tolerances allow at most.
void isClose(NodeTranslation &node) {
  ScalarType type = node.commonType({"self", "other"});
  type = isFloat(type) ? type : ScalarType::F32;
  Name self = node.operand("self", type), other = node.operand("other", type);
  Name apart = node.emit(Abs, {node.emit(Sub, {self, other})});
  Name allowed =
      node.emit(Add, {node.emit(Abs, {node.emit(Mul, {other, node.constant(type, node.number("rtol", 1e-5))})}),
                      node.constant(type, node.number("atol", 1e-8))});
  // An infinity is near nothing but itself.
  Name isFinite = node.emit(Less, {apart, node.constant(type, std::numeric_limits<double>::infinity())});
  Name isNear = node.emit(And, {isFinite, node.emit(LessOrEqual, {apart, allowed})});
  Name result = node.emit(Or, {node.emit(Equal, {self, other}), isNear});
  if (node.boolean("equal_nan", false))
    result = node.emit(Or, {result, node.emit(And, {node.emit("IsNaN", {self}), node.emit("IsNaN", {other})})});
  node.finish(result);
}

/// In double precision, as torch gives it.
void powerInDouble(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  node.finish(node.emit(Pow, {node.operand("self", type), node.operand("exponent", type)}));
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

/// As in torch one at a bound that is a number has no gradient (clip, in ActivationOperators.cpp), and shares it with
/// one that is a tensor.
void clamp(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name result = node.operand("self", type);
  auto limit = [&](const char *argument, const char *extremum, const char *isBeyond) {
    if (!node.has(argument))
      return;
    Name bound = node.operand(argument, type);
    result = isFloat(type) && node.isNumber(argument)
                 ? node.emit("Where", {node.emit(isBeyond, {result, bound}), bound, result})
                 : node.emit(extremum, {result, bound});
  };
  limit("min", Max, LessOrEqual);
  limit("max", Min, GreaterOrEqual);
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
  Name value = node.tensor(node.has("input") ? "input" : "self"); // the latter where it writes in place
  const double rate = node.number("p", 0.5);
  if (node.boolean("train", false) && rate != 0)
    value = node.emit("Dropout", {value, node.constant(ScalarType::F32, rate), node.constant(ScalarType::Bool, 1)});
  node.finish(value);
}
} // namespace

/// Of two operands, in each of the spellings that torch has for tensors and numbers.
static void addBinary(TranslationTable &table) {
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
    row("masked_fill", maskedFill);
    row("rsub", turnedDifference);
    row("remainder", remainder<true>);
    row("fmod", remainder<false>);
    row("lerp", interpolate);
    row("multiply", binary<Mul>);
    row("subtract", scaledSum<Sub>);
    row("true_divide", divide);
    row("divide", divide);
  }
  table["aten.pow.Tensor_Scalar"] = power;
  table["aten.pow.Tensor_Tensor"] = power;
  table["aten.pow.Scalar"] = power;
  for (const char *overload : {"Tensor_mode", "Scalar_mode"}) {
    table[std::string("aten.div.") + overload] = divide;
    table[std::string("aten.divide.") + overload] = divide;
  }
  for (const char *overload : {"Tensor_Tensor", "Tensor_Scalar", "Scalar"})
    table[std::string("aten.float_power.") + overload] = powerInDouble;
  table["aten.fmax.default"] = extremeNumber<GreaterOrEqual>;
  table["aten.fmin.default"] = extremeNumber<LessOrEqual>;
  table["aten.heaviside.default"] = heaviside;
  table["aten.isclose.default"] = isClose;
  table["aten.floor_divide.default"] = floorDivide;
  table["aten.floor_divide.Scalar"] = floorDivide;
  table["aten.remainder.Scalar_Tensor"] = remainder<true>;
  table["aten.max.other"] = binary<Max>;
  table["aten.min.other"] = binary<Min>;
}

/// Of one operand.
static void addUnary(TranslationTable &table) {
  table["aten.logical_xor.default"] = logical<Xor>;
  table["aten.square.default"] = square;
  table["aten.frac.default"] = fraction;
  table["aten.deg2rad.default"] = turnAngle<true>;
  table["aten.rad2deg.default"] = turnAngle<false>;
  table["aten.floor.default"] = roundTo<Floor>;
  table["aten.ceil.default"] = roundTo<Ceil>;
  table["aten.round.default"] = roundTo<Round>;
  table["aten.trunc.default"] = truncate;
  table["aten.sign.default"] = unary<Sign>;
  table["aten.sgn.default"] = unary<Sign>;
  table["aten.isposinf.default"] = isInfinity<true>;
  table["aten.isneginf.default"] = isInfinity<false>;
  table["aten.log2.default"] = log2;
  table["aten.log10.default"] = log10;
  table["aten.exp2.default"] = powerOfTwo;
  table["aten.tan.default"] = unary<Tan>;
  table["aten.asin.default"] = unary<Asin>;
  table["aten.acos.default"] = unary<Acos>;
  table["aten.atan.default"] = unary<Atan>;
  table["aten.sinh.default"] = unary<Sinh>;
  table["aten.cosh.default"] = unary<Cosh>;
  table["aten.asinh.default"] = unary<Asinh>;
  table["aten.acosh.default"] = unary<Acosh>;
  table["aten.atanh.default"] = unary<Atanh>;
  table["aten.atan2.default"] = angle;
  table["aten.arctan2.default"] = angle;
  table["aten.addcmul.default"] = addedPair<Mul>;
  table["aten.addcdiv.default"] = addedPair<Div>;
  table["aten.isnan.default"] = classify<IsNaN>;
  table["aten.isinf.default"] = classify<IsInf>;
  table["aten.isfinite.default"] = isFinite;
  table["aten.nan_to_num.default"] = replaceNonFinite;
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
}

void hyc::torchexport::addElementwise(TranslationTable &table) {
  addBinary(table);
  addUnary(table);
  for (const char *overload : {"default", "Tensor"}) {
    table[std::string("aten.clamp_min.") + overload] = clamp;
    table[std::string("aten.clamp_max.") + overload] = clamp;
  }
  table["aten.clamp.Tensor"] = clamp;
  table["aten.type_as.default"] = convert;
  table["aten.maximum.default"] = binary<Max>;
  table["aten.minimum.default"] = binary<Min>;
  table["aten.logical_and.default"] = logical<And>;
  table["aten.logical_or.default"] = logical<Or>;
  table["aten.clamp.default"] = clamp;
  table["aten.clip.default"] = clamp;
  table["aten.clip.Tensor"] = clamp;
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
  table["aten.native_dropout.default"] = dropout; // result 1, the mask, is for torch's own backward
}
