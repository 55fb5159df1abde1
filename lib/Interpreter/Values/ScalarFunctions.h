// The functions of one element, or of two: what hyc's elementwise ops and the rank dialect's kernel bodies compute. A
// new function is its formula here and its row in kFunctions, at the end.
#ifndef HYC_LIB_INTERPRETER_VALUES_SCALARFUNCTIONS_H
#define HYC_LIB_INTERPRETER_VALUES_SCALARFUNCTIONS_H

#include <cmath>
#include <cstdint>
#include <tuple>
#include <type_traits>

namespace hyc::interpreter::scalar {

// Each function takes and gives the storage type, so that f32 is rounded by every operation.
struct Neg {
  template <typename T> T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - static_cast<uint64_t>(x));
    else
      return -x;
  }
};
struct Abs {
  template <typename T> T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg()(x) : x;
    else
      return std::fabs(x);
  }
};
struct Relu {
  template <typename T> T operator()(T x) const { return x < T(0) ? T(0) : x; } // NaN stays NaN
};
struct Exp {
  template <typename T> T operator()(T x) const { return std::exp(x); }
};
struct Log {
  template <typename T> T operator()(T x) const { return std::log(x); }
};
struct Sqrt {
  template <typename T> T operator()(T x) const { return std::sqrt(x); }
};
struct Rsqrt {
  template <typename T> T operator()(T x) const { return T(1) / std::sqrt(x); }
};
struct Reciprocal {
  template <typename T> T operator()(T x) const { return T(1) / x; }
};
struct Tanh {
  template <typename T> T operator()(T x) const { return std::tanh(x); }
};
struct Erf {
  template <typename T> T operator()(T x) const { return std::erf(x); }
};
struct Sin {
  template <typename T> T operator()(T x) const { return std::sin(x); }
};
struct Cos {
  template <typename T> T operator()(T x) const { return std::cos(x); }
};
struct Sigmoid {
  template <typename T> T operator()(T x) const { return T(1) / (T(1) + std::exp(-x)); }
};

#define HYC_FLOAT_FUNCTION(NAME, BODY)                                                                                 \
  struct NAME {                                                                                                        \
    template <typename T> T operator()(T x) const { return BODY; }                                                     \
  };
HYC_FLOAT_FUNCTION(Floor, std::floor(x))
HYC_FLOAT_FUNCTION(Ceil, std::ceil(x))
HYC_FLOAT_FUNCTION(Round, std::nearbyint(x)) // ties to even, the mode that nobody changes
HYC_FLOAT_FUNCTION(Tan, std::tan(x))
HYC_FLOAT_FUNCTION(Asin, std::asin(x))
HYC_FLOAT_FUNCTION(Acos, std::acos(x))
HYC_FLOAT_FUNCTION(Atan, std::atan(x))
HYC_FLOAT_FUNCTION(Sinh, std::sinh(x))
HYC_FLOAT_FUNCTION(Cosh, std::cosh(x))
HYC_FLOAT_FUNCTION(Asinh, std::asinh(x))
HYC_FLOAT_FUNCTION(Acosh, std::acosh(x))
HYC_FLOAT_FUNCTION(Atanh, std::atanh(x))
HYC_FLOAT_FUNCTION(Softplus, (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::fabs(x))))
HYC_FLOAT_FUNCTION(Lgamma, std::lgamma(x))
#undef HYC_FLOAT_FUNCTION

/// Sums over k >= 0 of (x + k)^-power, by Euler and Maclaurin from a point where their terms are small: but for the
/// logarithm that the divergent one of power 1 has instead.
inline double tailOfPowers(double from, bool isSquare) {
  const double x = from;
  if (isSquare)
    return 1 / x + 1 / (2 * x * x) + 1 / (6 * std::pow(x, 3)) - 1 / (30 * std::pow(x, 5)) + 1 / (42 * std::pow(x, 7));
  return -std::log(x) + 1 / (2 * x) + 1 / (12 * x * x) - 1 / (120 * std::pow(x, 4)) + 1 / (252 * std::pow(x, 6));
}
struct Digamma { // Σ 1 / (x + k), negative
  template <typename T> T operator()(T given) const {
    constexpr double kPi = 3.14159265358979323846;
    const double x = static_cast<double>(given);
    if (x < 0 && x == std::floor(x))
      return std::nan("");
    if (x == 0)
      return static_cast<T>(-1 / x);
    if (x < 0)
      return static_cast<T>(Digamma()(1 - x) - kPi / std::tan(kPi * (x - std::floor(x))));
    double sum = 0, at = x;
    for (; at < 40; at += 1)
      sum += 1 / at;
    return static_cast<T>(-(sum + tailOfPowers(at, false)));
  }
};
struct Trigamma { // Σ 1 / (x + k)²
  template <typename T> T operator()(T given) const {
    constexpr double kPi = 3.14159265358979323846;
    const double x = static_cast<double>(given), sine = std::sin(kPi * (x - std::floor(x)));
    if (x <= 0)
      return static_cast<T>(kPi * kPi / (sine * sine) - Trigamma()(1 - x));
    double sum = 0, at = x;
    for (; at < 40; at += 1)
      sum += 1 / (at * at);
    return static_cast<T>(sum + tailOfPowers(at, true));
  }
};

struct Sign {
  template <typename T> T operator()(T x) const { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; } // NaN stays NaN
};
struct Rem { // an integer y is not zero
  template <typename T> T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return y == -1 ? 0 : x % y;
    else
      return std::fmod(x, y);
  }
};

constexpr double kSqrtTwoOverPi = 0.79788456080286535588, kTanhCubic = 0.044715;
constexpr double kSqrtHalf = 0.70710678118654752440, kInverseSqrtTwoPi = 0.39894228040143267794;

struct Gelu {
  template <typename T> T operator()(T x) const { return T(0.5) * x * (T(1) + std::erf(x * T(kSqrtHalf))); }
};
struct GeluTanh {
  template <typename T> T operator()(T x) const {
    return T(0.5) * x * (T(1) + std::tanh(T(kSqrtTwoOverPi) * (x + T(kTanhCubic) * x * x * x)));
  }
};
struct GeluGrad {
  template <typename T> T operator()(T cotangent, T x) const {
    T cumulative = T(0.5) * (T(1) + std::erf(x * T(kSqrtHalf)));
    T density = T(kInverseSqrtTwoPi) * std::exp(T(-0.5) * x * x);
    return cotangent * (cumulative + x * density);
  }
};
struct GeluTanhGrad {
  template <typename T> T operator()(T cotangent, T x) const {
    T inner = T(kSqrtTwoOverPi) * (x + T(kTanhCubic) * x * x * x);
    T slope = T(kSqrtTwoOverPi) * (T(1) + T(3 * kTanhCubic) * x * x);
    T tanh = std::tanh(inner);
    return cotangent * (T(0.5) * (T(1) + tanh) + T(0.5) * x * (T(1) - tanh * tanh) * slope);
  }
};

// Integer arithmetic runs on unsigned words, where overflow is defined.
template <typename T, typename Float, typename Integer> T pick(T x, T y, Float onFloats, Integer onIntegers) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(onIntegers(static_cast<uint64_t>(x), static_cast<uint64_t>(y)));
  else
    return onFloats(x, y);
}
struct Add {
  template <typename T> T operator()(T x, T y) const {
    return pick(x, y, [](T a, T b) { return a + b; }, [](uint64_t a, uint64_t b) { return a + b; });
  }
};
struct Sub {
  template <typename T> T operator()(T x, T y) const {
    return pick(x, y, [](T a, T b) { return a - b; }, [](uint64_t a, uint64_t b) { return a - b; });
  }
};
struct Mul {
  template <typename T> T operator()(T x, T y) const {
    return pick(x, y, [](T a, T b) { return a * b; }, [](uint64_t a, uint64_t b) { return a * b; });
  }
};
struct Div { // an integer y is not zero
  template <typename T> T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>)
      return y == -1 ? Neg()(x) : x / y;
    else
      return x / y;
  }
};
struct Pow { // integers: y is not negative
  template <typename T> T operator()(T x, T y) const {
    if constexpr (std::is_integral_v<T>) {
      uint64_t power = 1, base = static_cast<uint64_t>(x);
      for (uint64_t left = static_cast<uint64_t>(y); left > 0; left >>= 1, base *= base)
        power *= (left & 1) ? base : 1;
      return static_cast<T>(power);
    } else {
      return std::pow(x, y);
    }
  }
};
struct Max {
  template <typename T> T operator()(T x, T y) const { return x > y || x != x ? x : y; }
};
struct Min {
  template <typename T> T operator()(T x, T y) const { return x < y || x != x ? x : y; }
};
struct And {
  int64_t operator()(int64_t x, int64_t y) const { return x & y; }
};
struct Or {
  int64_t operator()(int64_t x, int64_t y) const { return x | y; }
};
struct Not {
  int64_t operator()(int64_t x) const { return x ^ 1; }
};

//===----------------------------------------------------------------------===//
// By name
//===----------------------------------------------------------------------===//

/// What a function is defined for.
enum class Domain { any, floats, integers, booleans };

template <typename FunctionT, unsigned count, Domain of> struct Row {
  using Function = FunctionT;
  static constexpr unsigned kOperands = count;
  static constexpr Domain kDomain = of;
  /// Whether elements that are kept as `T` can be among its operands.
  template <typename T> static constexpr bool takes() {
    return kDomain == Domain::any || (kDomain == Domain::floats) == std::is_floating_point_v<T>;
  }
  const char *name; ///< of the function in rank.compute, and of hyc's op of no attributes
};
template <typename Function> constexpr Row<Function, 1, Domain::any> any(const char *name) { return {name}; }
template <typename Function> constexpr Row<Function, 1, Domain::floats> real(const char *name) { return {name}; }
template <typename Function> constexpr Row<Function, 2, Domain::any> any2(const char *name) { return {name}; }
template <typename Function> constexpr Row<Function, 2, Domain::floats> real2(const char *name) { return {name}; }
template <typename Function> constexpr Row<Function, 1, Domain::booleans> logic(const char *name) { return {name}; }
template <typename Function> constexpr Row<Function, 2, Domain::integers> whole2(const char *name) { return {name}; }

inline constexpr auto kFunctions = std::make_tuple(
    any<Neg>("neg"), any<Abs>("abs"), any<Relu>("relu"), any<Sign>("sign"), real<Exp>("exp"), real<Log>("log"),
    real<Sqrt>("sqrt"), real<Rsqrt>("rsqrt"), real<Reciprocal>("reciprocal"), real<Tanh>("tanh"), real<Erf>("erf"),
    real<Sin>("sin"), real<Cos>("cos"), real<Sigmoid>("sigmoid"), real<Floor>("floor"), real<Ceil>("ceil"),
    real<Round>("round"), real<Tan>("tan"), real<Asin>("asin"), real<Acos>("acos"), real<Atan>("atan"),
    real<Sinh>("sinh"), real<Cosh>("cosh"), real<Asinh>("asinh"), real<Acosh>("acosh"), real<Atanh>("atanh"),
    real<Softplus>("softplus"), real<Lgamma>("lgamma"), real<Digamma>("digamma"), real<Trigamma>("trigamma"),
    real<Gelu>("gelu"), real<GeluTanh>("gelu_tanh"), real2<GeluGrad>("gelu_grad"),
    real2<GeluTanhGrad>("gelu_tanh_grad"), any2<Add>("add"), any2<Sub>("sub"), any2<Mul>("mul"), any2<Div>("div"),
    any2<Rem>("rem"), any2<Pow>("pow"), any2<Max>("max"), any2<Min>("min"), whole2<And>("and"), whole2<Or>("or"),
    logic<Not>("not"));

/// Calls `visit` with every row.
template <typename Visit> void forEachFunction(Visit visit) {
  std::apply([&](auto... row) { (visit(row), ...); }, kFunctions);
}

} // namespace hyc::interpreter::scalar

#endif // HYC_LIB_INTERPRETER_VALUES_SCALARFUNCTIONS_H
