// The sample itself, over tables whose refusals are known.
#include "CombinationSample.h"

#include "gtest/gtest.h"
#include <stdexcept>

using namespace hyc_e2e;

namespace {

std::vector<Column> table(const std::vector<size_t> &sizes) {
  std::vector<Column> columns;
  for (size_t size : sizes) {
    columns.push_back({"column " + std::to_string(columns.size()), {}});
    for (size_t i = 0; i < size; ++i)
      columns.back().choices.push_back({std::to_string(i), {}});
  }
  return columns;
}

/// How many pairs a sample covers.
size_t covered(const Sample &sample) {
  std::set<PartialChoice> pairs;
  for (const Combination &combination : sample.combinations)
    pairs.merge(pairsOf(combination));
  return pairs.size();
}

TEST(CombinationSample, CoversAllPairsInFarFewerThanAll) {
  Sample sample = samplePairwise(table({4, 3, 3, 2, 2, 2}), [](const Combination &) { return true; });
  // 12 + 12 + 8·3 + 9 + 6·3 + 6·3 + 4·3 pairs of 288 combinations.
  EXPECT_EQ(covered(sample), 105u);
  EXPECT_GE(sample.combinations.size(), 12u);
  EXPECT_LE(sample.combinations.size(), 18u);
  EXPECT_TRUE(sample.refused.empty());
}

TEST(CombinationSample, FindsThePairThatIsRefusedAndCoversTheOthers) {
  auto accepts = [](const Combination &c) { return !(c[0] == 2 && c[2] == 1); };
  Sample sample = samplePairwise(table({4, 3, 3, 2}), accepts);
  EXPECT_EQ(sample.refused, (std::vector<PartialChoice>{pairOf(0, 2, 2, 1)}));
  EXPECT_EQ(covered(sample), 12u + 12 + 8 + 9 + 6 + 6 - 1);
  for (const Combination &combination : sample.combinations)
    EXPECT_TRUE(accepts(combination));
}

TEST(CombinationSample, ThreeThatAreRefusedTogetherLoseNoPair) {
  auto accepts = [](const Combination &c) { return !(c[0] == 1 && c[1] == 1 && c[3] == 1); };
  Sample sample = samplePairwise(table({2, 2, 2, 2}), accepts);
  EXPECT_EQ(covered(sample), 24u);
  for (const Combination &combination : sample.combinations)
    EXPECT_TRUE(accepts(combination));
}

/// As --sequence-parallel does without tp: the first choice of another column is what it cannot do with.
TEST(CombinationSample, AFirstChoiceMayBeWhatAnotherCannotDoWith) {
  auto accepts = [](const Combination &c) { return !(c[1] == 1 && (c[0] == 0 || c[0] == 2)); };
  Sample sample = samplePairwise(table({4, 2, 3}), accepts);
  EXPECT_EQ(std::set<PartialChoice>(sample.refused.begin(), sample.refused.end()),
            (std::set<PartialChoice>{pairOf(0, 0, 1, 1), pairOf(0, 2, 1, 1)}));
  EXPECT_EQ(covered(sample), 8u + 12 + 6 - 2);
}

TEST(CombinationSample, AChoiceThatIsAlwaysRefusedIsAnError) {
  auto accepts = [](const Combination &c) { return c[1] != 1; };
  EXPECT_THROW(samplePairwise(table({2, 2, 2}), accepts), std::logic_error);
}

} // namespace
