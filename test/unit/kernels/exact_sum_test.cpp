// Exact sums against correctly rounded sums by another algorithm, and in every order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/exact_sum/reference.h"

namespace hyc::kernels {
namespace {

using Values = std::vector<double>;
using Limbs = std::vector<int64_t>;

double exactSumOf(const Values &values) {
  Limbs limbs(kExactSumLimbs);
  addExact(limbs.data(), values.data(), static_cast<int64_t>(values.size()));
  return roundExactSum(limbs.data());
}

// Shewchuk's expansion of partial sums that do not overlap, rounded at its end as Python's math.fsum does it.
double expansionSumOf(const Values &values) {
  Values partials;
  for (double x : values) {
    size_t kept = 0;
    for (double y : partials) {
      if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
      const double high = x + y, low = y - (high - x);
      if (low != 0) partials[kept++] = low;
      x = high;
    }
    partials.resize(kept);
    partials.push_back(x);
  }
  size_t n = partials.size();
  if (n == 0) return 0;
  double high = partials[--n], low = 0;
  while (n > 0 && low == 0) {
    const double x = high, y = partials[--n];
    high = x + y;
    low = y - (high - x);
  }
  if (n > 0 && ((low < 0 && partials[n - 1] < 0) || (low > 0 && partials[n - 1] > 0))) {
    const double y = low * 2, x = high + y;
    if (y == x - high) high = x;
  }
  return high;
}

Values randomValues(size_t count, int smallest, int largest, uint64_t seed) {
  std::mt19937_64 random(seed);
  Values values;
  for (size_t i = 0; i < count; ++i) {
    const double significand = 1 + static_cast<double>(random() >> 12) * 0x1p-52;
    values.push_back(std::ldexp(significand, smallest + static_cast<int>(random() % (largest - smallest + 1))));
  }
  return values;
}

TEST(ExactSum, IsTheCorrectlyRoundedSum) {
  const int ranges[][2] = {{-3, 3}, {-60, 60}, {-1074, -1000}, {-500, 500}, {-298, 128}, {900, 1000}};
  for (const auto &range : ranges)
    for (size_t count : {1, 2, 3, 10, 1000})
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const Values values = randomValues(count, range[0], range[1], seed * 31 + count);
        EXPECT_EQ(exactSumOf(values), expansionSumOf(values)) << range[0] << " " << range[1] << " " << count;
      }
}

TEST(ExactSum, HasTheDigitsOfTheReference) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Values values = randomValues(200, -1074, 1000, seed);
    Limbs got(kExactSumLimbs), want(kExactSumLimbs);
    addExact(got.data(), values.data(), 200);
    reference::addExact(want.data(), values.data(), 200);
    EXPECT_EQ(got, want);
    EXPECT_EQ(roundExactSum(got.data()), reference::roundExactSum(want.data()));
  }
}

TEST(ExactSum, OrderAndGroupingChangeNoBit) {
  Values values = randomValues(999, -400, 300, 7);
  const double want = exactSumOf(values);
  std::mt19937_64 random(3);
  for (int trial = 0; trial < 10; ++trial) {
    std::shuffle(values.begin(), values.end(), random);
    Limbs total(kExactSumLimbs);
    for (size_t begin = 0; begin < values.size();) {
      const size_t count = std::min<size_t>(values.size() - begin, 1 + random() % 300);
      Limbs part(kExactSumLimbs);
      addExact(part.data(), values.data() + begin, static_cast<int64_t>(count));
      for (int i = 0; i < kExactSumLimbs; ++i) total[i] += part[i];
      begin += count;
    }
    EXPECT_EQ(roundExactSum(total.data()), want);
  }
}

TEST(ExactSum, TiesGoToEven) {
  const double one = 1, half = 0x1p-53;
  EXPECT_EQ(exactSumOf({one, half}), 1.0);
  EXPECT_EQ(exactSumOf({one + 0x1p-52, half}), 1 + 0x1p-51);
  EXPECT_EQ(exactSumOf({one, half, 0x1p-1074}), 1 + 0x1p-52);
  EXPECT_EQ(reference::roundExactSum(Limbs(kExactSumLimbs).data()), 0.0);
}

TEST(ExactSum, EndsOfTheRange) {
  const double least = std::numeric_limits<double>::denorm_min(), most = std::numeric_limits<double>::max();
  EXPECT_EQ(exactSumOf({}), 0.0);
  EXPECT_EQ(exactSumOf({least, least, least}), 3 * least);
  EXPECT_EQ(exactSumOf({most}), most);
  EXPECT_EQ(exactSumOf({most, most}), std::numeric_limits<double>::infinity());
}

TEST(ExactSum, NanWinsOverInfinity) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(exactSumOf({1, infinity}), infinity);
  EXPECT_TRUE(std::isnan(exactSumOf({nan, infinity, 2})));
}

}  // namespace
}  // namespace hyc::kernels
