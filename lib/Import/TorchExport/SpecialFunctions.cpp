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

/// self · log(other), 0 where self is 0, whatever the logarithm.
void timesLogarithm(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto number = [&](double value) { return node.constant(type, value); };
  Name self = node.operand("self", type), other = node.operand("other", type), zero = number(0);
  Name isInfinite = node.emit("Equal", {other, number(std::numeric_limits<double>::infinity())});
  Name hasNone = node.emit("Or", {node.emit("LessOrEqual", {other, zero}), isInfinite});
  Name isZero = node.emit("And", {node.emit("Equal", {self, zero}), hasNone});
  Name safe = node.emit("Where", {isZero, number(1), other});
  node.finish(node.emit("Where", {isZero, zero, node.emit("Mul", {self, node.emit("Log", {safe})})}));
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

/// The modified Bessel function of order 0, by two polynomials (Abramowitz and Stegun, Handbook of Mathematical
/// Functions, 9.8.1 and 9.8.2), good to 2e-7.
void besselI0(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  constexpr double kBorder = 3.75;
  auto number = [&](double value) { return node.constant(type, value); };
  auto polynomial = [&](const Name &at, std::initializer_list<double> coefficients) {
    Name sum;
    for (double coefficient : coefficients)
      sum = sum.empty() ? number(coefficient) : node.emit("Add", {node.emit("Mul", {sum, at}), number(coefficient)});
    return sum;
  };
  Name self = node.operand("self", type), size = node.emit("Abs", {self});
  Name isNear = node.emit("LessOrEqual", {size, number(kBorder)});
  Name part = node.emit("Mul", {node.emit("Where", {isNear, self, number(0)}), number(1 / kBorder)});
  Name near =
      polynomial(node.emit("Mul", {part, part}), {0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1});
  Name far = node.emit("Where", {isNear, number(kBorder), size});
  Name series = polynomial(
      node.emit("Div", {number(kBorder), far}),
      {0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592, 0.39894228});
  Name grown = node.emit("Div", {node.emit("Exp", {far}), node.emit("Sqrt", {far})});
  node.finish(node.emit("Where", {isNear, near, node.emit("Mul", {grown, series})}));
}
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
    table[std::string("aten.xlogy.") + overload] = timesLogarithm;
    if (llvm::StringRef(overload) == "Tensor")
      table["aten.special_xlogy.default"] = timesLogarithm;
  }
  for (const char *overload : {"default", "periodic"}) {
    table[std::string("aten.hann_window.") + overload] = hannWindow;
    table[std::string("aten.hamming_window.") + overload] = hammingWindow;
    table[std::string("aten.blackman_window.") + overload] = blackmanWindow;
  }
  for (const char *overload : {"periodic_alpha", "periodic_alpha_beta"})
    table[std::string("aten.hamming_window.") + overload] = hammingWindow;
  table["aten.sinc.default"] = cardinalSine;
  table["aten.special_sinc.default"] = cardinalSine;
  table["aten.i0.default"] = besselI0;
  table["aten.special_i0.default"] = besselI0;
}
