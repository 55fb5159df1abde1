// Reductions over rows and columns: the tree's bits, and how near they are to a plain sum.
#include <algorithm>
#include <vector>

#include "kernel_test.h"
#include "kernels/reduce/loops.h"
#include "kernels/reduce/reference.h"
#include "kernels/sum_of_squares/reference.h"

namespace hyc::kernels {
namespace {

// x has the shape (outer, steps, inner); results are those of Combine over the middle, or over both inner dimensions.
template <typename Combine>
auto reduceOf(const std::vector<typename Combine::Value> &x, const ReduceSpace &space, bool isRows) {
  using T = typename Combine::Value;
  const int64_t steps = space.steps, inner = space.inner;
  std::vector<T> out(isRows ? space.outer : space.outer * inner, T(77));
  const T *in = x.data();
  T *results = out.data();
  const auto element = [=](int64_t o, int64_t s, int64_t i, T &total) {
    total = Combine::combine(total, in[(o * steps + s) * inner + i]);
  };
  if (isRows)
    reduceRows<Combine>(space, element, [=](int64_t o, T total) { results[o] = total; });
  else
    reduceColumns<Combine>(space, element, [=](int64_t o, int64_t i, T total) { results[o * inner + i] = total; });
  return out;
}

template <typename Combine>
auto referenceOf(const std::vector<typename Combine::Value> &x, const ReduceSpace &space, bool isRows) {
  std::vector<typename Combine::Value> out;
  for (int64_t o = 0; o < space.outer; ++o) {
    const auto at = [&](int64_t s, int64_t i) { return x[(o * space.steps + s) * space.inner + i]; };
    if (isRows)
      out.push_back(reference::combineRow<Combine>(space.steps, space.inner, at));
    else
      for (int64_t i = 0; i < space.inner; ++i)
        out.push_back(reference::combineColumn<Combine>(space.steps, [&](int64_t s) { return at(s, i); }));
  }
  return out;
}

// The plain sum in f64, which knows nothing of lanes and blocks.
Doubles plainSums(const Floats &x, const ReduceSpace &space, bool isRows) {
  Doubles out(isRows ? space.outer : space.outer * space.inner);
  for (int64_t o = 0, at = 0; o < space.outer; ++o)
    for (int64_t s = 0; s < space.steps; ++s)
      for (int64_t i = 0; i < space.inner; ++i, ++at) out[isRows ? o : o * space.inner + i] += x[at];
  return out;
}

// Every way in which work is shared out: few and many rows, rows of several blocks and steps; columns of one block and
// of several, few and many chunks.
const std::vector<ReduceSpace> kSpaces = {{1, 1, 1},      {3, 1, 31},     {5, 3, 33},    {40, 1, 17000}, {3, 2, 40001},
                                          {1, 50, 1500},  {2, 700, 33},   {1, 127, 5},   {1, 129, 64},   {3, 1025, 130},
                                          {1, 2500, 257}, {1, 300, 5000}, {17, 3, 2049}, {1, 2, 40000}};

TEST(Reduce, HasTheBitsOfTheReferenceAndIsNearAPlainSum) {
  for (const ReduceSpace &space : kSpaces)
    for (bool isRows : {true, false}) {
      const Floats x = randomFloats(space.outer * space.steps * space.inner, 1);
      const Floats sum = reduceOf<Sum<float>>(x, space, isRows);
      EXPECT_TRUE(sameBits(sum, referenceOf<Sum<float>>(x, space, isRows)));
      EXPECT_LT(relativeError(sum, plainSums(x, space, isRows), 1), 4e-6)
          << space.outer << " " << space.steps << " " << space.inner << " " << isRows;
    }
}

TEST(Reduce, CombinesOtherTypesAndKinds) {
  const ReduceSpace space{3, 400, 45};
  const Doubles x = widen(randomFloats(space.outer * space.steps * space.inner, 2));
  std::vector<int64_t> integers;
  for (double value : x) integers.push_back(static_cast<int64_t>(value * 1000));
  for (bool isRows : {true, false}) {
    EXPECT_EQ(reduceOf<Max<double>>(x, space, isRows), referenceOf<Max<double>>(x, space, isRows));
    EXPECT_EQ(reduceOf<Sum<double>>(x, space, isRows), referenceOf<Sum<double>>(x, space, isRows));
    EXPECT_EQ(reduceOf<Min<int64_t>>(integers, space, isRows), referenceOf<Min<int64_t>>(integers, space, isRows));
    EXPECT_EQ(reduceOf<Sum<int64_t>>(integers, space, isRows), referenceOf<Sum<int64_t>>(integers, space, isRows));
  }
  EXPECT_EQ(reduceOf<Max<double>>(x, {1, 1, int64_t(x.size())}, true)[0], *std::max_element(x.begin(), x.end()));
  EXPECT_EQ(reduceOf<Min<int64_t>>(integers, {1, int64_t(x.size()), 1}, false)[0],
            *std::min_element(integers.begin(), integers.end()));
}

TEST(Reduce, SeveralCombinationsAndAnElementwiseResultInOnePass) {
  const int64_t rows = 300, cols = 999;
  const Floats x = randomFloats(rows * cols, 3);
  Floats square(x.size()), sums(cols), largest(cols);
  const float *in = x.data();
  float *out0 = square.data(), *out1 = sums.data(), *out2 = largest.data();
  reduceColumns<Sum<float>, Max<float>>(
      {1, rows, cols},
      [=](int64_t, int64_t r, int64_t c, float &sum, float &max) {
        const float value = in[r * cols + c];
        out0[r * cols + c] = value * value;
        sum = sum + value;
        max = Max<float>::combine(max, value);
      },
      [=](int64_t, int64_t c, float sum, float max) {
        out1[c] = sum;
        out2[c] = max;
      });
  EXPECT_TRUE(sameBits(sums, referenceOf<Sum<float>>(x, {1, rows, cols}, false)));
  EXPECT_TRUE(sameBits(largest, referenceOf<Max<float>>(x, {1, rows, cols}, false)));
  for (int64_t i = 0; i < rows * cols; ++i) ASSERT_EQ(square[i], x[i] * x[i]);
}

TEST(Reduce, NothingGivesTheIdentityAndNanStays) {
  EXPECT_EQ(reduceOf<Max<float>>({}, {1, 0, 1}, true)[0], -INFINITY);
  EXPECT_EQ(reduceOf<Sum<float>>({}, {1, 1, 0}, true)[0], 0.0f);
  EXPECT_EQ(reduceOf<Min<int64_t>>({}, {1, 0, 1}, false)[0], INT64_MAX);
  for (int64_t at : {0, 33, 99}) {
    Floats x = randomFloats(100, 4);
    x[at] = NAN;
    EXPECT_TRUE(std::isnan(reduceOf<Max<float>>(x, {1, 1, 100}, true)[0])) << at;
    EXPECT_TRUE(std::isnan(reduceOf<Min<float>>(x, {1, 100, 1}, false)[0])) << at;
  }
}

TEST(Reduce, BitsDoNotDependOnThreads) {
  for (const ReduceSpace &space : kSpaces)
    for (bool isRows : {true, false}) {
      const Floats x = randomFloats(space.outer * space.steps * space.inner, 5);
      expectBitsIndependentOfThreads([&] { return reduceOf<Sum<float>>(x, space, isRows); });
    }
}

using ExactSum = std::vector<int64_t>;

ExactSum sumOf(const float *x, int64_t n) {
  ExactSum sum(kExactSumLimbs, 7);  // the old contents are never read
  sumOfSquares(x, n, sum.data(), WriteMode::kOverwrite);
  return sum;
}

TEST(SumOfSquares, HasTheBitsOfTheReference) {
  for (int64_t n : {0, 1, 15, 16, 17, 1023, 1024, 1025, 5000}) {
    const Floats x = randomFloats(n, 1);
    ExactSum want(kExactSumLimbs), got = sumOf(x.data(), n);
    reference::addSumOfSquares(x.data(), n, want.data());
    EXPECT_EQ(got, want) << n;
    reference::addSumOfSquares(x.data(), n, want.data());
    sumOfSquares(x.data(), n, got.data(), WriteMode::kAccumulate);
    EXPECT_EQ(got, want) << n;
  }
}

TEST(SumOfSquares, ShardsOfBlocksAddUpToTheWhole) {
  const int64_t n = 9 * kSumOfSquaresBlock + 100, cut = 4 * kSumOfSquaresBlock;
  const Floats x = randomFloats(n, 1);
  ExactSum parts = sumOf(x.data() + cut, n - cut);
  const ExactSum first = sumOf(x.data(), cut), whole = sumOf(x.data(), n);
  for (int i = 0; i < kExactSumLimbs; ++i) parts[i] += first[i];  // as an all_reduce does
  EXPECT_EQ(roundExactSum(parts.data()), roundExactSum(whole.data()));
}

TEST(SumOfSquares, MoreBlocksThanOneBatchHaveTheSameBitsOnAnyThreads) {
  const int64_t n = 4097 * kSumOfSquaresBlock + 1;
  const Floats x = randomFloats(n, 1);
  ExactSum want(kExactSumLimbs);
  reference::addSumOfSquares(x.data(), n, want.data());
  for (int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    EXPECT_EQ(sumOf(x.data(), n), want);
  }
}

}  // namespace
}  // namespace hyc::kernels
