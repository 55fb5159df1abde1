// The header-only kernels: the factor of the clipped mean gradient, and a rank's shard of what it holds whole.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/gradient_scale/op.h"
#include "kernels/shard_slice/op.h"

namespace hyc::kernels {
namespace {

TEST(GradientScale, DividesByTheTokensWhereNothingIsClipped) {
  float scale = -1, norm = -1;
  gradientScale(36.0, 4, kNoClipping, &scale, &norm);
  EXPECT_EQ(norm, 1.5f);
  EXPECT_EQ(scale, 0.25f);
  gradientScale(36.0, 4, 2.0, &scale, &norm);
  EXPECT_EQ(scale, 0.25f);
}

TEST(GradientScale, ClipsToTheLargestNormAsPyTorchDoes) {
  float scale = -1, norm = -1;
  gradientScale(36.0, 4, 0.5, &scale, &norm);
  EXPECT_EQ(norm, 1.5f);
  EXPECT_FLOAT_EQ(scale, static_cast<float>(0.5 / (1.5 + 1e-6) / 4));
}

TEST(GradientScale, IsZeroWhereNoTokenCounts) {
  float scale = -1, norm = -1;
  gradientScale(0.0, 0, 1.0, &scale, &norm);
  EXPECT_EQ(norm, 0.0f);
  EXPECT_EQ(scale, 0.0f);
}

TEST(ShardSlice, TakesTheMiddleDimensionsRowsAndFillsPaddingWithZeros) {
  // [2, 5, 3] in shards of 3: the second holds rows 3 and 4, and one row of padding.
  std::vector<float> whole(30), part(18, NAN);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i + 1);
  shardSlice({2, 5, 3, 3, 3, 4}, whole.data(), part.data());
  for (int64_t o = 0; o < 2; ++o) {
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 3; ++c) {
        const float expected = r < 2 ? whole[(o * 5 + 3 + r) * 3 + c] : 0.0f;
        EXPECT_EQ(part[(o * 3 + r) * 3 + c], expected) << o << ", " << r << ", " << c;
      }
    }
  }
}

TEST(ShardSlice, OfAShardThatIsAllPaddingIsZero) {
  const int64_t whole[] = {1, 2, 3};
  int64_t part[] = {7, 7};
  shardSlice({1, 3, 2, 1, 4, 8}, whole, part);
  EXPECT_EQ(part[0], 0);
  EXPECT_EQ(part[1], 0);
}

}  // namespace
}  // namespace hyc::kernels
