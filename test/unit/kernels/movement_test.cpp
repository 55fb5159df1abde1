// Permutations, strided copies, fills and accumulation against plain loops.
#include <algorithm>
#include <numeric>

#include "kernel_test.h"
#include "kernels/copy/reference.h"
#include "kernels/permute/reference.h"

namespace hyc::kernels {
namespace {

TEST(Permute, EveryPermutationOfFourDimensionsEqualsReference) {
  const int64_t shape[] = {3, 17, 1, 41};
  const Floats x = randomFloats(3 * 17 * 41, 1);
  int perm[] = {0, 1, 2, 3};
  do {
    Floats got = notANumber(x.size()), want(x.size());
    permute(4, shape, perm, x.data(), got.data());
    reference::permute(4, shape, perm, x.data(), want.data());
    EXPECT_TRUE(sameBits(got, want)) << perm[0] << perm[1] << perm[2] << perm[3];
  } while (std::next_permutation(perm, perm + 4));
}

TEST(Permute, LargeTransposesOfBothElementSizesEqualReference) {
  const int64_t shape[] = {131, 3, 257};
  const int perm[] = {2, 1, 0};
  std::vector<int64_t> x(131 * 3 * 257), got(x.size()), want(x.size());
  std::iota(x.begin(), x.end(), int64_t{1} << 40);
  stridedCopy(permuteDesc(3, shape, perm, 8), x.data(), got.data());
  reference::stridedCopy(permuteDesc(3, shape, perm, 8), x.data(), want.data());
  EXPECT_EQ(got, want);
  const Floats narrow = randomFloats(x.size(), 2);
  expectBitsIndependentOfThreads([&] {
    Floats result(narrow.size()), expected(narrow.size());
    permute(3, shape, perm, narrow.data(), result.data());
    reference::permute(3, shape, perm, narrow.data(), expected.data());
    EXPECT_TRUE(sameBits(result, expected));
    return result;
  });
}

TEST(Permute, SixDimensionsScalarsAndEmptyTensors) {
  const int64_t shape[] = {2, 3, 2, 5, 3, 4};
  const int perm[] = {5, 0, 3, 1, 4, 2};
  const Floats x = randomFloats(720, 1);
  Floats got(720), want(720);
  permute(6, shape, perm, x.data(), got.data());
  reference::permute(6, shape, perm, x.data(), want.data());
  EXPECT_TRUE(sameBits(got, want));
  float scalar = 0;
  permute(0, nullptr, nullptr, x.data(), &scalar);
  EXPECT_EQ(scalar, x[0]);
  const int64_t empty[] = {4, 0};
  const int identity[] = {0, 1};
  permute(2, empty, identity, nullptr, nullptr);
}

TEST(StridedCopy, BroadcastsAndSlices) {
  StridedCopyDesc d;
  d.tensorRank = 3;
  const int64_t shape[] = {4, 5, 6}, src[] = {0, 12, 2}, dst[] = {40, 8, 1};
  std::copy(shape, shape + 3, d.shape);
  std::copy(src, src + 3, d.srcStrides);
  std::copy(dst, dst + 3, d.dstStrides);
  const Floats x = randomFloats(60, 1);
  Floats got(160, -1.0f), want(160, -1.0f);
  stridedCopy(d, x.data(), got.data());
  reference::stridedCopy(d, x.data(), want.data());
  EXPECT_TRUE(sameBits(got, want));
}

TEST(Copy, RangesFillsAndRowsEqualReference) {
  for (int64_t n : {0, 1, 1000, 40000, (4 << 20) + 37}) {  // the last one takes the path past the cache
    const Floats x = randomFloats(n, 1);
    Floats got = notANumber(n + 2);
    copy(got.data() + 1, x.data(), n);
    EXPECT_TRUE(std::equal(x.begin(), x.end(), got.begin() + 1));
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[n + 1]));
    fill(got.data() + 1, n, 2.5f);
    EXPECT_EQ(std::count(got.begin(), got.end(), 2.5f), n);
    zero(got.data() + 1, n);
    EXPECT_EQ(std::count(got.begin(), got.end(), 0.0f), n);
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(got[n + 1]));
  }
  const Floats x = randomFloats(300 * 200, 2);
  Floats got(300 * 170, 0.0f), want = got;
  copyRows(got.data() + 3, 170, x.data() + 5, 200, 300, 160);
  reference::copyRows(want.data() + 3, 170, x.data() + 5, 200, 300, 160);
  EXPECT_TRUE(sameBits(got, want));
}

TEST(Copy, AccumulateAddsOncePerElement) {
  const Floats x = randomFloats(50001, 1), before = randomFloats(50001, 2);
  expectBitsIndependentOfThreads([&] {
    Floats got = before;
    accumulate(got.data(), x.data(), got.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], before[i] + x[i]);
    return got;
  });
}

}  // namespace
}  // namespace hyc::kernels
