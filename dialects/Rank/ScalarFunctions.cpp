// The table of scalar functions.
#include "dialects/Rank/ScalarFunctions.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc;

// gelu_tanh and gelu_tanh_grad are hyc.gelu and hyc.gelu_grad with their `tanh` attribute; compare_xx is hyc.compare;
// random_word(key, n) is the 32 random bits, as an i64, that hyc.dropout_mask's description defines.
static constexpr rank::ScalarFunction kFunctions[] = {
    {"neg", 1, "-{0}"},
    {"exp", 1, "math::exp({0})", "std::exp({0})"},
    {"log", 1, "math::log({0})", "std::log({0})"},
    {"sqrt", 1, "std::sqrt({0})"},
    {"rsqrt", 1, "1 / std::sqrt({0})"},
    {"reciprocal", 1, "1 / {0}"},
    {"tanh", 1, "math::tanh({0})", "std::tanh({0})"},
    {"erf", 1, "math::erf({0})", "std::erf({0})"},
    {"sin", 1, "std::sin({0})"},
    {"cos", 1, "std::cos({0})"},
    {"sigmoid", 1, "1 / (1 + math::exp(-{0}))", "1 / (1 + std::exp(-{0}))", "math::narrow::sigmoid({0})"},
    {"add", 2, "{0} + {1}"},
    {"sub", 2, "{0} - {1}"},
    {"mul", 2, "{0} * {1}"},
    {"div", 2, "{0} / {1}"},
    {"and", 2, "{0} & {1}"},
    {"or", 2, "{0} | {1}"},
    {"not", 1, "{0} ^ 1"},
    {"compare_eq", 2, "{0} == {1}"},
    {"compare_ne", 2, "{0} != {1}"},
    {"compare_lt", 2, "{0} < {1}"},
    {"compare_le", 2, "{0} <= {1}"},
    {"compare_gt", 2, "{0} > {1}"},
    {"compare_ge", 2, "{0} >= {1}"},
    {"select", 3, "{0} ? {1} : {2}"},
    {"convert", 1, ""},
    {"random_word", 2, "randomWord({0}, {1})"},
    {"floor", 1, "std::floor({0})"},
    {"ceil", 1, "std::ceil({0})"},
    {"round", 1, "std::nearbyint({0})"},
    {"tan", 1, "std::tan({0})"},
    {"asin", 1, "std::asin({0})"},
    {"acos", 1, "std::acos({0})"},
    {"atan", 1, "std::atan({0})"},
    {"sinh", 1, "std::sinh({0})"},
    {"cosh", 1, "std::cosh({0})"},
    {"asinh", 1, "std::asinh({0})"},
    {"acosh", 1, "std::acosh({0})"},
    {"atanh", 1, "std::atanh({0})"},
    {"lgamma", 1, "std::lgamma({0})"},
    {"digamma", 1, "digamma({0})", "", "",
     R"(// The derivative of log |Γ(x)|: by its series at 10 and beyond, to where 1 / x is taken off step by step; from below 0
// by reflection. -∞ and ∞ at the zeros, NaN at negative integers.
template <typename T>
inline T digamma(T x) {
  if (x == 0) return T(-1) / x;
  T result = 0;
  if (x < 0) {
    const T whole = std::floor(x);
    if (whole == x) return x - x + std::sqrt(T(-1));
    result = T(-3.14159265358979323846) / std::tan(T(3.14159265358979323846) * (x - whole));
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const T inverse = 1 / x, square = inverse * inverse;
  const T series = square * (T(1) / 12 - square * (T(1) / 120 - square * (T(1) / 252 - square * (T(1) / 240 - square / 132))));
  return result + std::log(x) - inverse / 2 - series;
}
)"},
    {"trigamma", 1, "trigamma({0})", "", "",
     R"(// Its derivative, in the same way.
template <typename T>
inline T trigamma(T x) {
  T result = 0, sign = 1;
  if (x < T(0.5)) {
    const T sine = std::sin(T(3.14159265358979323846) * (x - std::floor(x)));
    result = T(9.86960440108935861883) / (sine * sine);
    sign = -1;
    x = 1 - x;
  }
  T sum = 0;
  for (; x < 10; x += 1) sum += 1 / (x * x);
  const T inverse = 1 / x, square = inverse * inverse;
  const T series = T(1) / 6 - square * (T(1) / 30 - square * (T(1) / 42 - square * (T(1) / 30 - square * 5 / 66)));
  return result + sign * (sum + inverse + square / 2 + inverse * square * series);
}
)"},
    {"gelu", 1, "gelu({0})", "", "",
     R"(// x · Φ(x), and its derivative.
inline float gelu(float x) { return 0.5f * x * (1.0f + math::erf(x * 0.707106781f)); }
)"},
    {"gelu_grad", 2, "geluGrad({0}, {1})", "", "",
     R"(inline float geluGrad(float dy, float x) {
  const float cumulative = 0.5f * (1.0f + math::erf(x * 0.707106781f));
  const float density = 0.398942280f * math::exp(-0.5f * x * x);
  return dy * (cumulative + x * density);
}
)"},
    {"gelu_tanh", 1, "geluTanh({0})", "", "math::narrow::geluTanh({0})",
     R"(// 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))), and its derivative.
inline float geluTanh(float x) {
  return 0.5f * x * (1.0f + math::tanh(0.797884561f * (x + 0.044715f * x * x * x)));
}
)"},
    {"gelu_tanh_grad", 2, "geluTanhGrad({0}, {1})", "", "math::narrow::geluTanhGrad({0}, {1})",
     R"(inline float geluTanhGrad(float dy, float x) {
  const float t = math::tanh(0.797884561f * (x + 0.044715f * x * x * x));
  const float slope = 0.797884561f * (1.0f + 0.134145f * x * x);
  return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);
}
)"},
    {"relu", 1, "relu({0})", "", "",
     R"(template <typename T>
inline T relu(T x) {
  return x < 0 ? T(0) : x;
}
)"},
    {"max", 2, "maximum({0}, {1})", "", "",
     R"(// NaN if either is.
template <typename T>
inline T maximum(T x, T y) {
  return x > y || x != x ? x : y;
}
)"},
    {"min", 2, "minimum({0}, {1})", "", "",
     R"(template <typename T>
inline T minimum(T x, T y) {
  return x < y || x != x ? x : y;
}
)"},
    {"abs", 1, "absolute({0})", "", "",
     R"(template <typename T>
inline T absolute(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
  else return x < 0 ? T(-x) : x;
}
)"},
    {"pow", 2, "power({0}, {1})", "", "",
     R"(// Of integers: y is not negative; what does not fit wraps around.
template <typename T>
inline T power(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::pow(x, y);
  uint64_t result = 1, base = static_cast<uint64_t>(x);
  for (uint64_t left = static_cast<uint64_t>(y); left > 0; left >>= 1, base *= base) result *= (left & 1) ? base : 1;
  return static_cast<T>(result);
}
)"},
    {"rem", 2, "remainder({0}, {1})", "", "",
     R"(// With the sign of x; of integers y is neither 0 nor, where x is the lowest, -1.
template <typename T>
inline T remainder(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(x, y);
  else return static_cast<T>(x % y);
}
)"},
    {"sign", 1, "sign({0})", "", "",
     R"(// NaN stays NaN.
template <typename T>
inline T sign(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x;
}
)"},
    {"softplus", 1, "softplus({0})", "", "",
     R"(// log(1 + e^x)
template <typename T>
inline T softplus(T x) {
  return (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::fabs(x)));
}
)"},
};

llvm::ArrayRef<rank::ScalarFunction> rank::getScalarFunctions() { return kFunctions; }

const rank::ScalarFunction *rank::findScalarFunction(llvm::StringRef name) {
  const ScalarFunction *row = llvm::find_if(kFunctions, [&](const ScalarFunction &f) { return f.name == name; });
  return row == std::end(kFunctions) ? nullptr : row;
}
