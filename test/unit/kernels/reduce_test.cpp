#include "kernel_test.h"
#include "kernels/reduce/reference.h"
#include "kernels/sum_of_squares/reference.h"

namespace hyc::kernels {
namespace {

TEST(Reduce, EveryKindEqualsReferenceOverOddShapes) {
  for (int64_t outer : {1, 3})
    for (int64_t r : {1, 31, 33, 200})
      for (int64_t inner : {1, 5, 64, 130})
        for (ReduceKind kind : {ReduceKind::kSum, ReduceKind::kMean, ReduceKind::kMax})
          for (WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
            if (kind == ReduceKind::kMax && mode == WriteMode::kAccumulate) continue;
            const ReduceDesc d = {outer, r, inner, kind, mode};
            const Floats x = randomFloats(outer * r * inner, 1);
            const bool accumulate = mode == WriteMode::kAccumulate;
            Floats got = accumulate ? randomFloats(outer * inner, 2) : notANumber(outer * inner);
            Doubles want = accumulate ? widen(got) : Doubles(outer * inner);
            reduce(d, x.data(), got.data());
            reference::reduce(d, widen(x).data(), want.data());
            EXPECT_LT(relativeError(got, want), 2e-6) << outer << " " << r << " " << inner;
          }
}

TEST(Reduce, MaximumOfNothingIsMinusInfinityAndSumIsZero) {
  float out = 5;
  reduce({1, 0, 1, ReduceKind::kMax, WriteMode::kOverwrite}, nullptr, &out);
  EXPECT_EQ(out, -INFINITY);
  columnSum(0, 1, nullptr, &out, WriteMode::kOverwrite);
  EXPECT_EQ(out, 0.0f);
}

TEST(Reduce, BitsDoNotDependOnThreads) {
  const Floats x = randomFloats(700 * 333, 1);
  expectBitsIndependentOfThreads([&] {
    Floats out(333 + 700);
    columnSum(700, 333, x.data(), out.data(), WriteMode::kOverwrite);
    rowSum(700, 333, x.data(), out.data() + 333, WriteMode::kOverwrite);
    return out;
  });
}

TEST(SumOfSquares, HasTheBitsOfTheReference) {
  for (int64_t n : {0, 1, 15, 16, 17, 1023, 1024, 1025, 5000}) {
    const Floats x = randomFloats(n, 1);
    EXPECT_EQ(sumOfSquares(x.data(), n), reference::sumOfSquares(x.data(), n)) << n;
    EXPECT_EQ(sumOfSquares(x.data(), n, 2.5), reference::sumOfSquares(x.data(), n, 2.5)) << n;
  }
}

TEST(SumOfSquares, BlocksOfShardsCombineToTheWhole) {
  const int64_t n = 9 * kSumOfSquaresBlock + 100, cut = 4 * kSumOfSquaresBlock;
  const Floats x = randomFloats(n, 1);
  Doubles blocks(sumOfSquaresBlockCount(n));
  sumOfSquaresBlocks(x.data() + cut, n - cut, blocks.data() + 4);
  sumOfSquaresBlocks(x.data(), cut, blocks.data());
  EXPECT_EQ(combineBlockSums(blocks.data(), blocks.size()), sumOfSquares(x.data(), n));
}

TEST(SumOfSquares, MoreBlocksThanOneBatchAreCombinedInOrder) {
  const int64_t n = 4097 * kSumOfSquaresBlock + 1;
  const Floats x = randomFloats(n, 1);
  const double want = reference::sumOfSquares(x.data(), n);
  for (int threads : {1, 2, 3}) {
    omp_set_num_threads(threads);
    EXPECT_EQ(sumOfSquares(x.data(), n), want);
  }
}

}  // namespace
}  // namespace hyc::kernels
