// Known answers of the Random123 distribution, and what the streams built on them promise.
#include "hycrt/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "io/shuffle.h"

namespace hycrt {
namespace {

TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, NormalValuesHaveTheMomentsOfANormal) {
  const PhiloxStream stream(1, stableKey("h.0.attn.c_attn.weight"));
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = stream.normal(static_cast<uint64_t>(i));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(fourth / kCount, 3, 0.15);
}

TEST(Philox, UniformValuesFillTheInterval) {
  const PhiloxStream stream(1, stableKey("u"));
  std::vector<int> buckets(10);
  for (uint64_t i = 0; i < 100000; ++i) {
    const float x = stream.uniform(i);
    ASSERT_TRUE(x >= 0 && x < 1);
    ++buckets[static_cast<size_t>(x * 10)];
  }
  for (int count : buckets) EXPECT_NEAR(count, 10000, 500);
}

TEST(Philox, SeedsAndNamesGiveDifferentStreams) {
  EXPECT_NE(PhiloxStream(1, stableKey("a")).normal(0), PhiloxStream(2, stableKey("a")).normal(0));
  EXPECT_NE(PhiloxStream(1, stableKey("a")).normal(0), PhiloxStream(1, stableKey("b")).normal(0));
}

class ShuffleOf : public testing::TestWithParam<uint64_t> {};

TEST_P(ShuffleOf, VisitsEachPlaceOnce) {
  const Shuffle shuffle(3, 0, GetParam());
  std::vector<bool> seen(GetParam());
  for (uint64_t i = 0; i < GetParam(); ++i) {
    const uint64_t place = shuffle(i);
    ASSERT_LT(place, GetParam());
    ASSERT_FALSE(seen[place]);
    seen[place] = true;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShuffleOf, testing::Values(1, 2, 3, 4, 5, 16, 17, 1000, 65536, 65537));

TEST(Shuffle, DependsOnSeedAndEpochAndIsNotTheIdentity) {
  const auto order = [](uint64_t seed, uint64_t epoch) {
    std::vector<uint64_t> places;
    for (uint64_t i = 0; i < 100; ++i) places.push_back(Shuffle(seed, epoch, 100)(i));
    return places;
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
  EXPECT_FALSE(std::is_sorted(order(1, 0).begin(), order(1, 0).end()));
}

}  // namespace
}  // namespace hycrt
