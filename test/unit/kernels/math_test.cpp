// The error of exp, log, tanh and erf in units of the last place, and their bits at every width.
#include "kernels/math/math.h"

#include <cfloat>
#include <limits>
#include <utility>

#include "kernel_test.h"
#include "kernels/math/truncate.h"

namespace hyc::kernels {
namespace {

// The distance in units in the last place of an f32 of that size.
double ulps(float got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(static_cast<float>(want)) || std::isinf(got)) return static_cast<float>(want) == got ? 0 : INFINITY;
  int exponent;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// Every 4,001st f32 of either sign, special values included.
template <typename Function, typename Exact>
double largestError(Function function, Exact exact) {
  double largest = 0;
  const auto check = [&](float x) { largest = std::fmax(largest, ulps(function(x), exact(double{x}))); };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4001)
    check(math::detail::floatOf(static_cast<uint32_t>(bits)));
  for (float x : {0.0f, -0.0f, INFINITY, -INFINITY, std::nanf(""), FLT_MIN, FLT_MAX, -FLT_MAX, 1e-45f, 1.0f}) check(x);
  return largest;
}

TEST(Math, ExpIsWithinItsBound) {
  EXPECT_LT(largestError([](float x) { return math::exp(x); }, [](double x) { return std::exp(x); }), 1.1);
}
TEST(Math, LogIsWithinItsBound) {
  EXPECT_LT(largestError([](float x) { return math::log(x); }, [](double x) { return std::log(x); }), 0.9);
}
TEST(Math, TanhIsWithinItsBound) {
  EXPECT_LT(largestError([](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); }), 1.4);
}
TEST(Math, ErfIsWithinItsBound) {
  EXPECT_LT(largestError([](float x) { return math::erf(x); }, [](double x) { return std::erf(x); }), 1.4);
}

TEST(Math, SignOfZeroIsKept) {
  EXPECT_TRUE(std::signbit(math::tanh(-0.0f)) && std::signbit(math::erf(-0.0f)));
  EXPECT_FALSE(std::signbit(math::tanh(0.0f)) || std::signbit(math::erf(0.0f)));
}

TEST(Math, VectorisedLoopsHaveTheBitsOfSingleCalls) {
  const Floats x = randomFloats(1001, 1);
  Floats loop(4 * x.size()), single(loop.size());
  for (size_t i = 0; i < x.size(); ++i) {
    loop[4 * i] = math::exp(20 * x[i]);
    loop[4 * i + 1] = math::log(x[i] + 1);
    loop[4 * i + 2] = math::tanh(3 * x[i]);
    loop[4 * i + 3] = math::erf(3 * x[i]);
  }
  for (size_t i = 0; i < x.size(); ++i) {
    volatile float value = x[i];  // keeps this loop scalar
    single[4 * i] = math::exp(20 * value);
    single[4 * i + 1] = math::log(value + 1);
    single[4 * i + 2] = math::tanh(3 * value);
    single[4 * i + 3] = math::erf(3 * value);
  }
  EXPECT_TRUE(sameBits(loop, single));
}

template <typename Integer, typename Float>
void expectTruncated() {
  constexpr Integer kLeast = std::numeric_limits<Integer>::min(), kMost = std::numeric_limits<Integer>::max();
  constexpr Float kInfinity = std::numeric_limits<Float>::infinity();
  constexpr bool kIsSigned = std::is_signed_v<Integer>;
  const Float bound = std::ldexp(Float{1}, std::numeric_limits<Integer>::digits);
  const Float below = std::nextafter(bound, Float{0});
  const std::pair<Float, Integer> cases[] = {
      {std::numeric_limits<Float>::quiet_NaN(), 0},
      {-std::numeric_limits<Float>::quiet_NaN(), 0},
      {kInfinity, kMost},
      {-kInfinity, kLeast},
      {bound, kMost},
      {std::numeric_limits<Float>::max(), kMost},
      {-bound, kLeast},
      {std::numeric_limits<Float>::lowest(), kLeast},
      {below, static_cast<Integer>(below)},
      {-below, kIsSigned ? static_cast<Integer>(-static_cast<Integer>(below)) : kLeast},
      {Float(2.9), 2},
      {Float(-2.9), kIsSigned ? static_cast<Integer>(-2) : kLeast},
      {Float(-0.0), 0},
      {std::numeric_limits<Float>::denorm_min(), 0},
  };
  // In a loop, too, which is other code than for one number: a vector's lanes.
  Float from[256];
  Integer to[256];
  for (int i = 0; i < 256; ++i) from[i] = cases[i % std::size(cases)].first;
#pragma omp simd
  for (int i = 0; i < 256; ++i) to[i] = math::truncated<Integer>(from[i]);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(to[i], cases[i % std::size(cases)].second) << from[i];
  for (const auto &[x, want] : cases) EXPECT_EQ(math::truncated<Integer>(x), want) << x;
}

TEST(Math, TruncationSaturatesAndMakesZeroOfNaN) {
  expectTruncated<int32_t, float>();
  expectTruncated<int64_t, float>();
  expectTruncated<int32_t, double>();
  expectTruncated<int64_t, double>();
  expectTruncated<int8_t, float>();
  expectTruncated<int16_t, double>();
  expectTruncated<uint8_t, float>();
  expectTruncated<uint32_t, float>();
  expectTruncated<uint64_t, double>();
}

}  // namespace
}  // namespace hyc::kernels
