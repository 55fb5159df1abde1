// The error of exp, log, tanh and erf in units of the last place, and their bits at every width.
#include "kernels/math/math.h"

#include <cfloat>

#include "kernel_test.h"

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

}  // namespace
}  // namespace hyc::kernels
