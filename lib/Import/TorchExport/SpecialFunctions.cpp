// Functions of one or two numbers that are rarer, as others say them. What is divided by or taken the logarithm of on
// the side that is not chosen is 1, so that no gradient there is infinite.
#include "Translator.h"
#include "lib/Import/ONNX/AssembledModel.h"

#include <cmath>
#include <limits>

using namespace hyc;
using namespace hyc::torchexport;

namespace {
template <const llvm::StringLiteral &Type> void unary(NodeTranslation &node) {
  node.finish(node.emit(Type, {node.operand("self", node.resultMeta().type)}));
}

/// Coefficients of the highest power first.
Name polynomial(NodeTranslation &node, ScalarType type, const Name &at, std::initializer_list<double> coefficients) {
  Name sum;
  for (double coefficient : coefficients) {
    Name own = node.constant(type, coefficient);
    sum = sum.empty() ? own : node.emit("Add", {node.emit("Mul", {sum, at}), own});
  }
  return sum;
}

/// log(1 + x), with its relative precision where x is small: u = 1 + x is rounded, and x · log(u) / (u - 1) makes up
/// for that (Goldberg, What Every Computer Scientist Should Know About Floating-Point Arithmetic, theorem 4).
Name logOfOneMore(NodeTranslation &node, const Name &self, ScalarType type) {
  Name one = node.constant(type, 1);
  Name sum = node.emit("Add", {self, one}), rounded = node.emit("Sub", {sum, one});
  Name isTiny = node.emit("Equal", {rounded, node.constant(type, 0)});
  Name isLarge = node.emit("Greater", {node.emit("Abs", {self}), node.constant(type, 0.5)});
  Name isPlain = node.emit("Or", {isTiny, isLarge});
  Name divisor = node.emit("Where", {isPlain, one, rounded});
  Name corrected = node.emit("Mul", {node.emit("Log", {sum}), node.emit("Div", {self, divisor})});
  Name plain = node.emit("Where", {isTiny, self, node.emit("Log", {sum})});
  return node.emit("Where", {isPlain, plain, corrected});
}
void log1p(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  node.finish(logOfOneMore(node, node.operand("self", type), type));
}

/// exp(x) - 1, by tanh(x / 2) · (exp(x) + 1), which keeps its precision where x is small.
void expm1(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name self = node.operand("self", type), power = node.emit("Exp", {self}), one = node.constant(type, 1);
  Name isSmall = node.emit("Less", {node.emit("Abs", {self}), one});
  Name near = node.emit("Where", {isSmall, self, node.constant(type, 0)});
  Name exact = node.emit("Mul", {node.emit("Tanh", {node.emit("Mul", {near, node.constant(type, 0.5)})}),
                                 node.emit("Add", {node.emit("Exp", {near}), one})});
  node.finish(node.emit("Where", {isSmall, exact, node.emit("Sub", {power, one})}));
}

/// The inverse of erf by two polynomials in -log(1 - x²) (Giles, Approximating the erfinv function, single precision).
void inverseErf(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto number = [&](double value) { return node.constant(type, value); };
  Name self = node.operand("self", type), one = number(1);
  Name product = node.emit("Mul", {node.emit("Sub", {one, self}), node.emit("Add", {one, self})});
  Name w = node.emit("Neg", {node.emit("Log", {product})});
  Name isNear = node.emit("Less", {w, number(5)});
  // Each side of the boundary sees numbers of its own range alone, so that neither's slope is infinite.
  Name nearBy = node.emit("Sub", {node.emit("Where", {isNear, w, number(0)}), number(2.5)});
  Name farOff = node.emit("Sub", {node.emit("Sqrt", {node.emit("Where", {isNear, number(5), w})}), number(3)});
  Name near = polynomial(node, type, nearBy,
                         {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                          -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
  Name far = polynomial(node, type, farOff,
                        {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
                         0.00943887047, 1.00167406, 2.83297682});
  node.finish(node.emit("Mul", {node.emit("Where", {isNear, near, far}), self}));
}

/// sqrt(self² + other²), neither square too large or too small: the larger is factored out, and being no more than that
/// has no gradient.
void hypotenuse(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto number = [&](double value) { return node.constant(type, value); };
  Name a = node.operand("self", type), b = node.operand("other", type), one = number(1);
  Name largest = node.emit("Max", {node.emit("Abs", {a}), node.emit("Abs", {b})});
  Name isNone = node.emit("Equal", {largest, number(0)});
  Name isInfinite = node.emit("Equal", {largest, number(std::numeric_limits<double>::infinity())});
  Name factor = node.emit("Where", {node.emit("Or", {isNone, isInfinite}), one, largest});
  factor = node.emit(onnx::kStopGradient, {factor});
  Name x = node.emit("Div", {a, factor}), y = node.emit("Div", {b, factor});
  Name sum = node.emit("Add", {node.emit("Mul", {x, x}), node.emit("Mul", {y, y})});
  node.finish(node.emit("Mul", {node.emit("Sqrt", {sum}), factor}));
}

/// self · log(other), or of one more; 0 where self is 0, whatever the logarithm.
template <bool OfOneMore> void timesLogarithm(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto number = [&](double value) { return node.constant(type, value); };
  Name self = node.operand("self", type), other = node.operand("other", type), zero = number(0);
  Name isInfinite = node.emit("Equal", {other, number(std::numeric_limits<double>::infinity())});
  Name hasNone = node.emit("Or", {node.emit("LessOrEqual", {other, number(OfOneMore ? -1 : 0)}), isInfinite});
  Name isZero = node.emit("And", {node.emit("Equal", {self, zero}), hasNone});
  Name safe = node.emit("Where", {isZero, number(1), other});
  Name logarithm = OfOneMore ? logOfOneMore(node, safe, type) : node.emit("Log", {safe});
  node.finish(node.emit("Where", {isZero, zero, node.emit("Mul", {self, logarithm})}));
}

/// sin(πx) / πx
void cardinalSine(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name one = node.constant(type, 1);
  Name angle = node.emit("Mul", {node.operand("self", type), node.constant(type, M_PI)});
  Name isZero = node.emit("Equal", {angle, node.constant(type, 0)});
  Name safe = node.emit("Where", {isZero, one, angle});
  node.finish(node.emit("Where", {isZero, one, node.emit("Div", {node.emit("Sin", {safe}), safe})}));
}

/// The modified Bessel functions of orders 0 and 1, and what e^-|x| leaves of them, each by two polynomials (Abramowitz
/// and Stegun, Handbook of Mathematical Functions, 9.8.1 to 9.8.4), good to 3e-7.
enum class Growth { Whole, Scaled };
template <int Order, Growth OfResult> void besselI(NodeTranslation &node) {
  static_assert(Order == 0 || Order == 1);
  ScalarType type = node.resultMeta().type;
  constexpr double kBorder = 3.75;
  auto number = [&](double value) { return node.constant(type, value); };
  Name self = node.operand("self", type), isLess = node.emit("Less", {self, number(0)});
  Name size = node.emit("Where", {isLess, node.emit("Neg", {self}), self});
  Name isNear = node.emit("LessOrEqual", {size, number(kBorder)});
  Name close = node.emit("Where", {isNear, self, number(0)}), far = node.emit("Where", {isNear, number(kBorder), size});
  Name part = node.emit("Mul", {close, number(1 / kBorder)}), square = node.emit("Mul", {part, part});
  Name inverse = node.emit("Div", {number(kBorder), far});
  Name near, series;
  if constexpr (Order == 0) {
    near = polynomial(node, type, square, {0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1});
    series = polynomial(node, type, inverse,
                        {0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319,
                         0.01328592, 0.39894228});
  } else {
    near =
        polynomial(node, type, square, {0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5});
    near = node.emit("Mul", {close, near});
    series = polynomial(node, type, inverse,
                        {-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018,
                         -0.03988024, 0.39894228});
    series = node.emit("Where", {isLess, node.emit("Neg", {series}), series});
  }
  series = node.emit("Div", {series, node.emit("Sqrt", {far})});
  if constexpr (OfResult == Growth::Scaled)
    near =
        node.emit("Mul", {near, node.emit("Exp", {node.emit("Neg", {node.emit("Where", {isNear, size, number(0)})})})});
  else
    series = node.emit("Mul", {node.emit("Exp", {far}), series});
  node.finish(node.emit("Where", {isNear, near, series}));
}

//===----------------------------------------------------------------------===//
// What the error function leaves
//===----------------------------------------------------------------------===//

/// e^(x²) (1 - erf x) of numbers from 0, by an exponential of a polynomial in 1 / (1 + x/2), good to 1.2e-7 of it
/// (Press et al., Numerical Recipes, erfcc).
Name scaledRest(NodeTranslation &node, const Name &x, ScalarType type) {
  auto number = [&](double value) { return node.constant(type, value); };
  Name t = node.emit("Div", {number(1), node.emit("Add", {node.emit("Mul", {x, number(0.5)}), number(1)})});
  Name exponent = polynomial(node, type, t,
                             {0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418,
                              0.37409196, 1.00002368, -1.26551223});
  return node.emit("Mul", {t, node.emit("Exp", {exponent})});
}

struct Sides {
  Name isBelow, size; // whether it is less than 0, and its size
};
Sides sidesOf(NodeTranslation &node, const Name &x, ScalarType type) {
  Name isBelow = node.emit("Less", {x, node.constant(type, 0)});
  return {isBelow, node.emit("Where", {isBelow, node.emit("Neg", {x}), x})};
}

/// 1 - erf x, as precise relative to itself where it is small.
Name restOfErf(NodeTranslation &node, const Name &x, ScalarType type) {
  auto number = [&](double value) { return node.constant(type, value); };
  Name isFar = node.emit("Greater", {x, number(0.5)});
  Name far = node.emit("Where", {isFar, x, number(1)}), near = node.emit("Where", {isFar, number(0), x});
  Name decay = node.emit("Exp", {node.emit("Neg", {node.emit("Mul", {far, far})})});
  Name rest = node.emit("Mul", {decay, scaledRest(node, far, type)});
  return node.emit("Where", {isFar, rest, node.emit("Sub", {number(1), node.emit("Erf", {near})})});
}

void complementOfErf(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  node.finish(restOfErf(node, node.operand("self", type), type));
}

/// e^(x²) (1 - erf x)
void scaledComplementOfErf(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto number = [&](double value) { return node.constant(type, value); };
  Name self = node.operand("self", type);
  auto [isBelow, size] = sidesOf(node, self, type);
  Name above = scaledRest(node, size, type);
  Name below = node.emit("Where", {isBelow, self, number(0)});
  Name grown = node.emit("Mul", {node.emit("Exp", {node.emit("Mul", {below, below})}), number(2)});
  node.finish(node.emit("Where", {isBelow, node.emit("Sub", {grown, above}), above}));
}

/// The share of a normal distribution that lies below x: half of what erf leaves of -x / √2.
void normalShare(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name x = node.emit("Mul", {node.operand("self", type), node.constant(type, -M_SQRT1_2)});
  node.finish(node.emit("Mul", {restOfErf(node, x, type), node.constant(type, 0.5)}));
}

/// Its logarithm; far below 0, where the share is no number any more, log(e^(z²) erfc(z) / 2) - z².
void logOfNormalShare(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto number = [&](double value) { return node.constant(type, value); };
  Name z = node.emit("Mul", {node.operand("self", type), number(-M_SQRT1_2)});
  Name isBelow = node.emit("Greater", {z, number(0)});
  Name below = node.emit("Where", {isBelow, z, number(0)}), above = node.emit("Where", {isBelow, number(0), z});
  Name scaled = node.emit("Log", {node.emit("Mul", {scaledRest(node, below, type), number(0.5)})});
  // What is missing of 1 is what the other side has.
  Name missing = node.emit("Mul", {restOfErf(node, node.emit("Neg", {above}), type), number(-0.5)});
  node.finish(node.emit("Where", {isBelow, node.emit("Sub", {scaled, node.emit("Mul", {below, below})}),
                                  logOfOneMore(node, missing, type)}));
}

//===----------------------------------------------------------------------===//
// Of shares
//===----------------------------------------------------------------------===//

/// -x log x; 0 of 0, and -∞ of what is less.
void entropy(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto number = [&](double value) { return node.constant(type, value); };
  Name self = node.operand("self", type), isLess = node.emit("Less", {self, number(0)});
  Name isNone = node.emit("LessOrEqual", {self, number(0)}), safe = node.emit("Where", {isNone, number(1), self});
  Name product = node.emit("Neg", {node.emit("Mul", {self, node.emit("Log", {safe})})});
  node.finish(node.emit("Where", {isLess, number(-std::numeric_limits<double>::infinity()), product}));
}

/// log(x / (1 - x)); with a bound between it and 1 less it.
void logit(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name x = node.operand("self", type), one = node.constant(type, 1);
  if (node.has("eps")) {
    const double bound = node.number("eps");
    Name low = node.constant(type, bound), high = node.emit("Sub", {one, low});
    x = node.emit("Where", {node.emit("Less", {x, low}), low, x});
    x = node.emit("Where", {node.emit("Greater", {x, high}), high, x});
  }
  node.finish(node.emit("Log", {node.emit("Div", {x, node.emit("Sub", {one, x})})}));
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// A window of so many numbers: a mean, less what a cosine of a whole turn makes, and more of one of two turns.
void cosineWindow(NodeTranslation &node, double mean, double once, double twice) {
  ScalarType type = node.resultMeta().type;
  const int64_t length = node.integer("window_length");
  constexpr int64_t kMost = 1 << 20;
  if (!node.failed() && (length < 1 || length > kMost))
    node.error() << "makes a window of " << length << " numbers, expected 1 to " << kMost;
  if (node.failed())
    return;
  auto number = [&](double value) { return node.constant(type, value); };
  if (length == 1)
    return node.finish(node.filled(type, node.constant({1}), 1));
  const int64_t turn = node.boolean("periodic", true) ? length : length - 1;
  Name places = node.emit("Range", {number(0), number(static_cast<double>(length)), number(1)});
  auto cosine = [&](double turns, double factor) {
    Name angle = node.emit("Mul", {places, number(2 * M_PI * turns / static_cast<double>(turn))});
    return node.emit("Mul", {node.emit("Cos", {angle}), number(factor)});
  };
  Name window = node.emit("Add", {cosine(1, -once), number(mean)});
  node.finish(twice == 0 ? window : node.emit("Add", {window, cosine(2, twice)}));
}
void hannWindow(NodeTranslation &node) { cosineWindow(node, 0.5, 0.5, 0); }
void hammingWindow(NodeTranslation &node) {
  cosineWindow(node, node.number("alpha", 0.54), node.number("beta", 0.46), 0);
}
void blackmanWindow(NodeTranslation &node) { cosineWindow(node, 0.42, 0.5, 0.08); }
} // namespace

void hyc::torchexport::addSpecial(TranslationTable &table) {
  for (const char *name : {"lgamma", "special_gammaln"})
    table["aten." + std::string(name) + ".default"] = unary<onnx::kLogGamma>;
  for (const char *name : {"digamma", "special_digamma", "special_psi"})
    table["aten." + std::string(name) + ".default"] = unary<onnx::kDigamma>;
  table["aten.hypot.default"] = hypotenuse;
  for (const char *overload : {"Tensor", "Scalar_Self", "Scalar_Other"}) {
    table[std::string("aten.xlogy.") + overload] = timesLogarithm<false>;
    if (llvm::StringRef(overload) == "Tensor")
      table["aten.special_xlogy.default"] = timesLogarithm<false>;
  }
  for (const char *overload : {"default", "periodic"}) {
    table[std::string("aten.hann_window.") + overload] = hannWindow;
    table[std::string("aten.hamming_window.") + overload] = hammingWindow;
    table[std::string("aten.blackman_window.") + overload] = blackmanWindow;
  }
  for (const char *overload : {"periodic_alpha", "periodic_alpha_beta"})
    table[std::string("aten.hamming_window.") + overload] = hammingWindow;
  table["aten.log1p.default"] = log1p;
  table["aten.expm1.default"] = expm1;
  for (const char *name : {"erfinv", "special_erfinv"})
    table["aten." + std::string(name) + ".default"] = inverseErf;
  for (const char *name : {"erfc", "special_erfc"})
    table["aten." + std::string(name) + ".default"] = complementOfErf;
  for (const char *name : {"sinc", "special_sinc"})
    table["aten." + std::string(name) + ".default"] = cardinalSine;
  for (const char *name : {"i0", "special_i0"})
    table["aten." + std::string(name) + ".default"] = besselI<0, Growth::Whole>;
  for (const char *name : {"logit", "special_logit"})
    table["aten." + std::string(name) + ".default"] = logit;
  table["aten.special_i0e.default"] = besselI<0, Growth::Scaled>;
  table["aten.special_i1.default"] = besselI<1, Growth::Whole>;
  table["aten.special_i1e.default"] = besselI<1, Growth::Scaled>;
  table["aten.special_erfcx.default"] = scaledComplementOfErf;
  table["aten.special_ndtr.default"] = normalShare;
  table["aten.special_log_ndtr.default"] = logOfNormalShare;
  table["aten.special_entr.default"] = entropy;
  for (const char *overload : {"default", "other_scalar", "self_scalar"})
    table[std::string("aten.special_xlog1py.") + overload] = timesLogarithm<true>;
}
