// Operators that compute each element alone, under numpy's broadcasting rules; hyc's own ops never broadcast.
#include "Expansion.h"
#include "dialects/Hyc/Relations.h"
#include "hyc/Support/Decimal.h"
#include "hyc/Support/Truncation.h"
#include <cmath>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
using Emit = llvm::function_ref<Value(Importer &, RankedTensorType, ArrayRef<Value>)>;

/// Broadcasts all inputs to one shape, and folds or emits.
LogicalResult importElementwise(NodeImport &node, llvm::MutableArrayRef<Binding> operands, Type resultElement,
                                HostTensor::ElementFn fold, Emit emit) {
  HostTensor::Shape shape;
  for (Binding &operand : operands) {
    std::optional<HostTensor::Shape> common = broadcastShapes(shape, operand.type.getShape());
    if (!common)
      return node.error() << "combines shapes that do not agree: " << operands.front().type << " and " << operand.type;
    shape = *common;
  }
  if (!countElements(shape))
    return node.error() << "has a result of more elements than 63 bits can count";
  bool known = llvm::all_of(operands, [](const Binding &operand) { return operand.constant.has_value(); });
  if (known) {
    llvm::SmallVector<HostTensor> tensors;
    for (Binding &operand : operands)
      tensors.push_back(operand.constant->broadcastTo(shape));
    std::optional<HostTensor> result = HostTensor::map(resultElement, tensors, fold);
    return node.finish(result ? std::optional<Binding>(node.importer().ofConstant(*result)) : std::nullopt);
  }
  llvm::SmallVector<Value> values;
  for (Binding &operand : operands) {
    std::optional<Binding> repeated = node.importer().broadcast(operand, shape);
    values.push_back(node.importer().materialise(*repeated));
  }
  return node.finish(
      node.importer().ofValue(emit(node.importer(), RankedTensorType::get(shape, resultElement), values)));
}

llvm::SmallVector<Binding> allInputs(NodeImport &node) {
  llvm::SmallVector<Binding> inputs;
  for (int i = 0; i < node.inputCount(); ++i)
    if (node.has(i))
      inputs.push_back(node.input(i));
  return inputs;
}

LogicalResult checkOneType(NodeImport &node, ArrayRef<Binding> operands) {
  for (const Binding &operand : operands)
    if (operand.type.getElementType() != operands.front().type.getElementType())
      return node.error() << "combines " << operands.front().type << " with " << operand.type;
  return success();
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

// Integers wrap around, as in the models' own runtimes.
int64_t wrap(uint64_t value) { return static_cast<int64_t>(value); }

HostElement foldAdd(bool real, HostElement a, HostElement b) {
  return real ? HostElement::ofReal(a.real + b.real)
              : HostElement::ofInteger(wrap(static_cast<uint64_t>(a.integer) + static_cast<uint64_t>(b.integer)));
}
HostElement foldSub(bool real, HostElement a, HostElement b) {
  return real ? HostElement::ofReal(a.real - b.real)
              : HostElement::ofInteger(wrap(static_cast<uint64_t>(a.integer) - static_cast<uint64_t>(b.integer)));
}
HostElement foldMul(bool real, HostElement a, HostElement b) {
  return real ? HostElement::ofReal(a.real * b.real)
              : HostElement::ofInteger(wrap(static_cast<uint64_t>(a.integer) * static_cast<uint64_t>(b.integer)));
}
HostElement foldDiv(bool real, HostElement a, HostElement b) {
  if (real)
    return HostElement::ofReal(a.real / b.real);
  if (b.integer == -1)
    return HostElement::ofInteger(wrap(-static_cast<uint64_t>(a.integer)));
  return HostElement::ofInteger(b.integer == 0 ? 0 : a.integer / b.integer);
}
HostElement foldMax(bool real, HostElement a, HostElement b) {
  if (real)
    return std::isnan(a.real) ? a : std::isnan(b.real) ? b : HostElement::ofReal(std::max(a.real, b.real));
  return HostElement::ofInteger(std::max(a.integer, b.integer));
}
HostElement foldMin(bool real, HostElement a, HostElement b) {
  if (real)
    return std::isnan(a.real) ? a : std::isnan(b.real) ? b : HostElement::ofReal(std::min(a.real, b.real));
  return HostElement::ofInteger(std::min(a.integer, b.integer));
}
HostElement foldPow(bool real, HostElement a, HostElement b) { // an integer b is not negative
  if (real)
    return HostElement::ofReal(std::pow(a.real, b.real));
  uint64_t result = 1, base = static_cast<uint64_t>(a.integer);
  for (uint64_t exponent = static_cast<uint64_t>(b.integer); exponent; exponent >>= 1, base *= base)
    if (exponent & 1)
      result *= base;
  return HostElement::ofInteger(wrap(result));
}
HostElement foldAnd(bool, HostElement a, HostElement b) { return HostElement::ofInteger(a.integer & b.integer); }
HostElement foldOr(bool, HostElement a, HostElement b) { return HostElement::ofInteger(a.integer | b.integer); }

using BinaryFold = HostElement (*)(bool real, HostElement a, HostElement b);

/// Two inputs or, for operators that take any number, a chain.
template <typename OpTy, BinaryFold Fold> LogicalResult importBinary(NodeImport &node) {
  llvm::SmallVector<Binding> operands = allInputs(node);
  if (failed(checkOneType(node, operands)))
    return failure();
  Type type = operands.front().type.getElementType();
  bool real = isa<FloatType>(type);
  auto fold = [real](ArrayRef<HostElement> elements) {
    HostElement result = elements.front();
    for (HostElement element : elements.drop_front())
      result = Fold(real, result, element);
    return result;
  };
  auto emit = [](Importer &importer, RankedTensorType, ArrayRef<Value> values) {
    Value result = values.front();
    for (Value value : values.drop_front())
      result = importer.emit<OpTy>(result, value);
    return result;
  };
  return importElementwise(node, operands, type, fold, emit);
}

LogicalResult importDiv(NodeImport &node) {
  const std::optional<HostTensor> &divisor = node.input(1).constant;
  if (divisor && !divisor->isReal() && node.input(0).constant)
    for (int64_t i = 0, n = std::min(divisor->getNumElements(), HostTensor::kMaxStored); i < n; ++i)
      if (divisor->atFlat(i).integer == 0)
        return node.error() << "divides an integer by 0";
  return importBinary<DivOp, foldDiv>(node);
}

HostElement convertElement(HostElement value, bool fromReal, Type to) {
  if (isa<FloatType>(to))
    return fromReal ? value : HostElement::ofReal(static_cast<double>(value.integer));
  if (to.isInteger(1))
    return HostElement::ofInteger(fromReal ? value.real != 0 : value.integer != 0);
  if (!fromReal)
    return value;
  // Out of range is undefined in the format; what programs make of it when they run.
  return HostElement::ofInteger(truncated(value.real, to.getIntOrFloatBitWidth(), to.isUnsignedInteger()));
}

/// Whether all are whole and none negative, so that integers may be raised to them as integers.
bool areCounts(const HostTensor &exponents) {
  auto isCount = [&](HostElement e) {
    return exponents.isReal() ? e.real >= 0 && e.real == std::floor(e.real) : e.integer >= 0;
  };
  for (int64_t i = 0, n = exponents.isSplat() ? 1 : exponents.getNumElements(); i < n; ++i)
    if (!isCount(exponents.atFlat(i)))
      return false;
  return true;
}

/// The exponent may have another type than the base, which is the result's. Integers are raised to real powers, and to
/// negative ones, as reals, and what comes of it is truncated.
LogicalResult importPow(NodeImport &node) {
  Binding base = node.input(0), exponent = node.input(1);
  Type type = base.type.getElementType(), other = exponent.type.getElementType();
  const bool real = isa<FloatType>(type);
  Expansion e(node);
  if (!real && (exponent.constant ? !areCounts(*exponent.constant) : isa<FloatType>(other))) {
    Type wide = node.importer().getBuilder().getF64Type();
    return e.finish(e.cast(e("Pow", {e.cast(base, wide), e.cast(exponent, wide)}), type));
  }
  llvm::SmallVector<Binding> operands{base, e.cast(exponent, type)};
  if (!e.ok())
    return failure();
  return importElementwise(
      node, operands, type, [&](ArrayRef<HostElement> both) { return foldPow(real, both[0], both[1]); },
      [](Importer &importer, RankedTensorType, ArrayRef<Value> values) {
        return importer.emit<PowOp>(values[0], values[1]);
      });
}

using UnaryFold = double (*)(double);

/// `FoldIntegers` where a double does not hold them.
template <typename OpTy, UnaryFold Fold, int64_t (*FoldIntegers)(int64_t) = nullptr>
LogicalResult importUnary(NodeImport &node) {
  llvm::SmallVector<Binding> operands{node.input(0)};
  Type type = operands[0].type.getElementType();
  bool real = isa<FloatType>(type);
  auto fold = [real](ArrayRef<HostElement> e) {
    if (real)
      return HostElement::ofReal(Fold(e[0].real));
    if constexpr (FoldIntegers != nullptr)
      return HostElement::ofInteger(FoldIntegers(e[0].integer));
    return HostElement::ofInteger(truncated(Fold(static_cast<double>(e[0].integer))));
  };
  return importElementwise(node, operands, type, fold, [](Importer &importer, RankedTensorType, ArrayRef<Value> v) {
    return importer.emit<OpTy>(v[0]);
  });
}

double negate(double x) { return -x; }
/// The least integer stays what it is, as it does in two's complement.
int64_t negateInteger(int64_t x) { return static_cast<int64_t>(-static_cast<uint64_t>(x)); }
int64_t absoluteInteger(int64_t x) { return x < 0 ? negateInteger(x) : x; }
double absolute(double x) { return std::fabs(x); }
double exponential(double x) { return std::exp(x); }
double logarithm(double x) { return std::log(x); }
double squareRoot(double x) { return std::sqrt(x); }
double reciprocal(double x) { return 1 / x; }
double tangent(double x) { return std::tanh(x); }
double errorFunction(double x) { return std::erf(x); }
double sine(double x) { return std::sin(x); }
double cosine(double x) { return std::cos(x); }
double rectify(double x) { return x > 0 ? x : x == x ? 0 : x; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double roundDown(double x) { return std::floor(x); }
double roundUp(double x) { return std::ceil(x); }
double roundToEven(double x) { return std::nearbyint(x); }
double signOf(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double tangentOf(double x) { return std::tan(x); }
double inverseSine(double x) { return std::asin(x); }
double inverseCosine(double x) { return std::acos(x); }
double inverseTangent(double x) { return std::atan(x); }
double hyperbolicSine(double x) { return std::sinh(x); }
double hyperbolicCosine(double x) { return std::cosh(x); }
double inverseHyperbolicSine(double x) { return std::asinh(x); }
double inverseHyperbolicCosine(double x) { return std::acosh(x); }
double inverseHyperbolicTangent(double x) { return std::atanh(x); }
double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

double logGamma(double x) { return std::lgamma(x); }
double digamma(double x) {
  double sum = 0;
  if (x < 0 && x == std::floor(x))
    return std::nan("");
  if (x < 0)
    return digamma(1 - x) - M_PI / std::tan(M_PI * (x - std::floor(x)));
  for (; x < 20; ++x)
    sum -= 1 / x;
  return sum + std::log(x) - 1 / (2 * x) - 1 / (12 * x * x) + 1 / (120 * std::pow(x, 4)) - 1 / (252 * std::pow(x, 6));
}

/// The rest of integers has the divisor's sign, unless `fmod` says otherwise.
Value emitMod(Importer &importer, RankedTensorType type, Value x, Value y, bool truncated) {
  Value rest = importer.emit<RemOp>(x, y);
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  if (truncated || !integer || integer.isUnsigned())
    return rest;
  Binding constant = importer.splatLike(type, 0);
  Value zero = importer.materialise(constant);
  auto boolean = RankedTensorType::get(type.getShape(), importer.getBuilder().getI1Type());
  auto below = [&](Value v) { return importer.emit<CompareOp>(boolean, ComparePredicate::lt, v, zero); };
  Value differs = importer.emit<CompareOp>(boolean, ComparePredicate::ne, below(rest), below(y));
  Value isRest = importer.emit<CompareOp>(boolean, ComparePredicate::ne, rest, zero);
  Value moves = importer.emit<AndOp>(differs, isRest);
  return importer.emit<SelectOp>(type, moves, importer.emit<AddOp>(rest, y), rest);
}

LogicalResult importMod(NodeImport &node) {
  bool truncated = node.getInt("fmod", 0) != 0;
  llvm::SmallVector<Binding> operands{node.input(0), node.input(1)};
  if (failed(checkOneType(node, operands)))
    return failure();
  Type element = operands[0].type.getElementType();
  bool real = isa<FloatType>(element);
  if (real && !truncated)
    return node.error() << "takes the rest of " << operands[0].type << " without fmod, expected integers";
  auto fold = [&](ArrayRef<HostElement> e) {
    if (real)
      return HostElement::ofReal(std::fmod(e[0].real, e[1].real));
    if (e[1].integer == 0 || e[1].integer == -1)
      return HostElement::ofInteger(0);
    int64_t rest = e[0].integer % e[1].integer;
    return HostElement::ofInteger(!truncated && rest != 0 && (rest < 0) != (e[1].integer < 0) ? rest + e[1].integer
                                                                                              : rest);
  };
  return importElementwise(node, operands, element, fold,
                           [&](Importer &importer, RankedTensorType type, ArrayRef<Value> values) {
                             return emitMod(importer, type, values[0], values[1], truncated);
                           });
}

//===----------------------------------------------------------------------===//
// Comparisons, choices and types
//===----------------------------------------------------------------------===//

template <ComparePredicate Predicate> LogicalResult importCompare(NodeImport &node) {
  llvm::SmallVector<Binding> operands{node.input(0), node.input(1)};
  if (failed(checkOneType(node, operands)))
    return failure();
  bool real = isa<FloatType>(operands[0].type.getElementType());
  auto fold = [&](ArrayRef<HostElement> e) {
    return HostElement::ofInteger(real ? holds(Predicate, e[0].real, e[1].real)
                                       : holds(Predicate, e[0].integer, e[1].integer));
  };
  return importElementwise(node, operands, node.importer().getBuilder().getI1Type(), fold,
                           [](Importer &importer, RankedTensorType type, ArrayRef<Value> values) {
                             return importer.emit<CompareOp>(type, Predicate, values[0], values[1]);
                           });
}

LogicalResult importIsNaN(NodeImport &node) {
  llvm::SmallVector<Binding> operands{node.input(0)};
  auto fold = [](ArrayRef<HostElement> e) { return HostElement::ofInteger(std::isnan(e[0].real)); };
  return importElementwise(node, operands, node.importer().getBuilder().getI1Type(), fold,
                           [](Importer &importer, RankedTensorType type, ArrayRef<Value> values) {
                             return importer.emit<CompareOp>(type, ComparePredicate::ne, values[0], values[0]);
                           });
}

LogicalResult importNot(NodeImport &node) {
  llvm::SmallVector<Binding> operands{node.input(0)};
  auto fold = [](ArrayRef<HostElement> e) { return HostElement::ofInteger(!e[0].integer); };
  return importElementwise(
      node, operands, operands[0].type.getElementType(), fold,
      [](Importer &importer, RankedTensorType, ArrayRef<Value> values) { return importer.emit<NotOp>(values[0]); });
}

/// Where either has a bit and not both.
LogicalResult importBitwiseXor(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0), y = node.input(1);
  return e.finish(e.sub(e("BitwiseOr", {x, y}), e("BitwiseAnd", {x, y})));
}

/// What is missing to all bits: -1 of integers with a sign.
LogicalResult importBitwiseNot(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  auto type = cast<IntegerType>(x.type.getElementType());
  Binding all =
      type.isUnsigned() ? e.number(x, std::ldexp(1.0, static_cast<int>(type.getWidth())) - 1) : e.number(x, -1);
  if (type.isUnsigned() && type.getWidth() > 32)
    return node.error() << "turns the bits of " << x.type << ", expected at most 32 bits without a sign";
  return e.finish(e.sub(all, x));
}

LogicalResult importWhere(NodeImport &node) {
  llvm::SmallVector<Binding> operands = allInputs(node);
  if (!operands[0].type.getElementType().isInteger(1))
    return node.error() << "chooses by " << operands[0].type << ", expected booleans";
  if (failed(checkOneType(node, ArrayRef<Binding>(operands).drop_front())))
    return failure();
  auto fold = [](ArrayRef<HostElement> e) { return e[0].integer ? e[1] : e[2]; };
  return importElementwise(node, operands, operands[1].type.getElementType(), fold,
                           [](Importer &importer, RankedTensorType type, ArrayRef<Value> values) {
                             return importer.emit<SelectOp>(type, values[0], values[1], values[2]);
                           });
}

LogicalResult importConvertTo(NodeImport &node, Type to) {
  llvm::SmallVector<Binding> operands{node.input(0)};
  Type from = operands[0].type.getElementType();
  if (from == to)
    return node.finish(operands[0]);
  bool fromReal = isa<FloatType>(from);
  auto fold = [&](ArrayRef<HostElement> e) { return convertElement(e[0], fromReal, to); };
  auto emit = [&](Importer &importer, RankedTensorType type, ArrayRef<Value> values) -> Value {
    if (!to.isInteger(1))
      return importer.emit<ConvertOp>(type, values[0]);
    Binding zero = importer.splatLike(cast<RankedTensorType>(values[0].getType()), 0);
    return importer.emit<CompareOp>(type, ComparePredicate::ne, values[0], importer.materialise(zero));
  };
  return importElementwise(node, operands, to, fold, emit);
}

LogicalResult importCast(NodeImport &node) {
  if (!node.hasAttribute("to"))
    return node.error() << "has no attribute 'to', expected the data type to convert to";
  int64_t to = node.getInt("to", 0);
  Type type = OnnxFile::getElementType(node.importer().getContext(), static_cast<int32_t>(to));
  if (!type)
    return node.error() << "converts to " << OnnxFile::describeDataType(to);
  return importConvertTo(node, type);
}

LogicalResult importCastLike(NodeImport &node) { return importConvertTo(node, node.input(1).type.getElementType()); }

LogicalResult importClip(NodeImport &node) {
  if (node.opset() < 11 && (node.hasAttribute("min") || node.hasAttribute("max"))) {
    Expansion e(node);
    Binding x = node.input(0);
    if (node.hasAttribute("min"))
      x = e("Max", {x, e.number(x, node.getFloat("min", 0))});
    if (node.hasAttribute("max"))
      x = e("Min", {x, e.number(x, node.getFloat("max", 0))});
    return e.finish(x);
  }
  llvm::SmallVector<Binding> operands{node.input(0)};
  for (int i = 1; i < 3; ++i)
    if (node.has(i))
      operands.push_back(node.input(i));
  bool low = node.has(1), high = node.has(2), real = isa<FloatType>(operands[0].type.getElementType());
  if (failed(checkOneType(node, operands)))
    return failure();
  auto fold = [&](ArrayRef<HostElement> e) {
    HostElement result = low ? foldMax(real, e[0], e[1]) : e[0];
    return high ? foldMin(real, result, e.back()) : result;
  };
  // torch's clamp and relu6 by numbers come here, too, and have no gradient at a bound, of which Max and Min give half.
  auto isNumber = [&](const Binding &bound) { return real && bound.constant && bound.type.getRank() == 0; };
  auto beyond = [](Importer &importer, ComparePredicate predicate, Value x, Value bound) -> Value {
    auto mask = cast<RankedTensorType>(x.getType()).clone(importer.getBuilder().getI1Type());
    Value isBeyond = importer.emit<CompareOp>(mask, predicate, x, bound);
    return importer.emit<SelectOp>(x.getType(), isBeyond, bound, x);
  };
  auto emit = [&](Importer &importer, RankedTensorType, ArrayRef<Value> values) -> Value {
    Value result = values[0];
    if (low)
      result = isNumber(operands[1]) ? beyond(importer, ComparePredicate::le, result, values[1])
                                     : Value(importer.emit<MaxOp>(result, values[1]));
    if (high)
      result = isNumber(operands.back()) ? beyond(importer, ComparePredicate::ge, result, values.back())
                                         : Value(importer.emit<MinOp>(result, values.back()));
    return result;
  };
  return importElementwise(node, operands, operands[0].type.getElementType(), fold, emit);
}

LogicalResult importGelu(NodeImport &node) {
  std::string approximate = node.getString("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return node.error() << "has the unknown approximation '" << approximate << "', expected 'none' or 'tanh'";
  Importer &importer = node.importer();
  Value operand = node.value(0);
  UnitAttr tanh = approximate == "tanh" ? importer.getBuilder().getUnitAttr() : UnitAttr();
  return node.finish(importer.ofValue(importer.emit<GeluOp>(operand.getType(), operand, tanh)));
}

LogicalResult importDropout(NodeImport &node) {
  // inputs: data, ratio (0.5 where it is left out), training_mode; without training_mode the result is the data
  bool trains = node.has(2);
  if (trains) {
    const HostTensor *mode = node.constant(2);
    if (!mode)
      return failure();
    trains = mode->getNumElements() != 1 || mode->atFlat(0).integer != 0;
  }
  double ratio = 0.5;
  if (trains && node.has(1)) {
    const HostTensor *given = node.constant(1);
    if (!given)
      return failure();
    if (given->getNumElements() != 1 || !given->isReal())
      return node.error() << "has a ratio of type " << node.input(1).type << ", expected one floating-point number";
    ratio = given->atFlat(0).real;
  }
  Importer &importer = node.importer();
  if (!trains || ratio == 0) {
    auto mask = RankedTensorType::get(node.shapeOf(0), importer.getBuilder().getI1Type());
    return node.finish(std::vector<std::optional<Binding>>{node.input(0), importer.splatLike(mask, 1)});
  }
  if (!(ratio > 0 && ratio < 1))
    return node.error() << "drops a share of " << ratio << ", expected at least 0 and less than 1";
  if (node.outputCount() > 1)
    return node.error() << "gives its mask to the graph, which hyc draws where it is used only; leave that output out, "
                           "or export the model in eval mode";
  // The shortest number that reads back as the f32 that the file has: 0.1, not 0.10000000149.
  FloatAttr rate = importer.getBuilder().getF64FloatAttr(shortestDecimal(ratio));
  Value operand = node.value(0);
  return node.finish(importer.ofValue(importer.emit<DropoutOp>(operand.getType(), operand, Value(), rate)));
}

/// hyc's own: constants and integers have no gradient.
LogicalResult importStopGradient(NodeImport &node) {
  if (node.input(0).constant || !isa<FloatType>(node.input(0).type.getElementType()))
    return node.finish(node.input(0));
  return node.finish(node.importer().ofValue(node.importer().emit<StopGradientOp>(node.value(0))));
}

LogicalResult importIdentity(NodeImport &node) { return node.finish(node.input(0)); }
} // namespace

/// What ONNX has no operator for, and other front ends write.
static void addOwnOperators(OperatorTable &table) {
  table[kLogGamma] = {importUnary<LgammaOp, logGamma>, {tensor("X").real()}};
  table[kDigamma] = {importUnary<DigammaOp, digamma>, {tensor("X").real()}};
  table[kStopGradient] = {importStopGradient, {tensor("input").orEmpty()}};
}

/// Of booleans, and of the bits of integers.
static void addLogic(OperatorTable &table) {
  const OperandRules twoBooleans{tensor("A").boolean().orEmptyConstant(), tensor("B").boolean().orEmptyConstant()};
  table["And"] = {importBinary<AndOp, foldAnd>, twoBooleans};
  table["Or"] = {importBinary<OrOp, foldOr>, twoBooleans};
  table["Xor"] = {importCompare<ComparePredicate::ne>, twoBooleans};
  table["Not"] = {importNot, {tensor("X").boolean().orEmptyConstant()}};
  const OperandRules twoIntegers{tensor("A").integer().orEmptyConstant(), tensor("B").integer().orEmptyConstant()};
  table["BitwiseAnd"] = {importBinary<AndOp, foldAnd>, twoIntegers};
  table["BitwiseOr"] = {importBinary<OrOp, foldOr>, twoIntegers};
  table["BitwiseXor"] = {importBitwiseXor, twoIntegers};
  table["BitwiseNot"] = {importBitwiseNot, {tensor("X").integer().orEmptyConstant()}};
}

void hyc::onnx::addElementwiseOperators(OperatorTable &table) {
  addLogic(table);
  const OperandRules real{tensor("X").real().orEmptyConstant()};
  const OperandRules two{tensor("A").orEmptyConstant(), tensor("B").orEmptyConstant()};
  table["Add"] = {importBinary<AddOp, foldAdd>, two};
  table["Sub"] = {importBinary<SubOp, foldSub>, two};
  table["Mul"] = {importBinary<MulOp, foldMul>, two};
  table["Div"] = {importDiv, two};
  table["Pow"] = {importPow, two};
  table["Max"] = {importBinary<MaxOp, foldMax>, OperandRules::many(tensor("data").orEmptyConstant())};
  table["Min"] = {importBinary<MinOp, foldMin>, OperandRules::many(tensor("data").orEmptyConstant())};
  table["Sum"] = {importBinary<AddOp, foldAdd>, OperandRules::many(tensor("data").orEmptyConstant())};
  table["Mod"] = {importMod, two};
  table["Neg"] = {importUnary<NegOp, negate, negateInteger>, {tensor("X").orEmptyConstant()}};
  table["Abs"] = {importUnary<AbsOp, absolute, absoluteInteger>, {tensor("X").orEmptyConstant()}};
  table["Exp"] = {importUnary<ExpOp, exponential>, real};
  table["Log"] = {importUnary<LogOp, logarithm>, real};
  table["Sqrt"] = {importUnary<SqrtOp, squareRoot>, real};
  table["Reciprocal"] = {importUnary<ReciprocalOp, reciprocal>, real};
  table["Tanh"] = {importUnary<TanhOp, tangent>, real};
  table["Erf"] = {importUnary<ErfOp, errorFunction>, real};
  table["Sin"] = {importUnary<SinOp, sine>, real};
  table["Cos"] = {importUnary<CosOp, cosine>, real};
  table["Relu"] = {importUnary<ReluOp, rectify>, {tensor("X").orEmptyConstant()}};
  table["Sigmoid"] = {importUnary<SigmoidOp, sigmoid>, real};
  table["Floor"] = {importUnary<FloorOp, roundDown>, real};
  table["Ceil"] = {importUnary<CeilOp, roundUp>, real};
  table["Round"] = {importUnary<RoundOp, roundToEven>, real};
  table["Sign"] = {importUnary<SignOp, signOf>, {tensor("X").orEmptyConstant()}};
  table["Tan"] = {importUnary<TanOp, tangentOf>, real};
  table["Asin"] = {importUnary<AsinOp, inverseSine>, real};
  table["Acos"] = {importUnary<AcosOp, inverseCosine>, real};
  table["Atan"] = {importUnary<AtanOp, inverseTangent>, real};
  table["Sinh"] = {importUnary<SinhOp, hyperbolicSine>, real};
  table["Cosh"] = {importUnary<CoshOp, hyperbolicCosine>, real};
  table["Asinh"] = {importUnary<AsinhOp, inverseHyperbolicSine>, real};
  table["Acosh"] = {importUnary<AcoshOp, inverseHyperbolicCosine>, real};
  table["Atanh"] = {importUnary<AtanhOp, inverseHyperbolicTangent>, real};
  table["Softplus"] = {importUnary<SoftplusOp, softplus>, real};
  table["Equal"] = {importCompare<ComparePredicate::eq>, two};
  table["Less"] = {importCompare<ComparePredicate::lt>, two};
  table["LessOrEqual"] = {importCompare<ComparePredicate::le>, two};
  table["Greater"] = {importCompare<ComparePredicate::gt>, two};
  table["GreaterOrEqual"] = {importCompare<ComparePredicate::ge>, two};
  table["IsNaN"] = {importIsNaN, real};
  table["Where"] = {
      importWhere,
      {tensor("condition").boolean().orEmptyConstant(), tensor("X").orEmptyConstant(), tensor("Y").orEmptyConstant()}};
  table["Cast"] = {importCast, {tensor("input").orEmpty()}};
  table["CastLike"] = {importCastLike, {tensor("input").orEmpty(), tensor("target_type").orEmpty()}};
  table["Clip"] = {importClip, {tensor("input").orEmptyConstant(), one("min").optional(), one("max").optional()}};
  table["Gelu"] = {importGelu, real};
  table["Dropout"] = {importDropout, {tensor("data"), one("ratio").optional(), one("training_mode").optional()}};
  addOwnOperators(table);
  table["Identity"] = {importIdentity, {anything("input")}};
}
