// The first oracle: random graphs over random meshes, under the plans that hyc makes by itself. HYC_EQUIVALENCE_SEEDS
// runs other seeds than these.
#include "Comparison.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <regex>

using namespace hyc::equivalence;

/// What the seeds are meant to try does occur in them.
TEST(PartitionedGraphs, CoverEveryKindOfExchange) {
  struct Feature {
    const char *text;
    int least, found;
  } features[] = {{"dist.all_reduce_start sum", 100, 0},
                  {"dist.all_reduce_start max", 10, 0},
                  {"hyc.vocab_sum_exp", 10, 0},
                  {"over <{tp}>", 40, 0},
                  {"over <{dp}>", 40, 0},
                  {"dist.channel", 50, 0},
                  {"over <{} stages [0, 1]>", 20, 0},
                  {"hyc.saved", 100, 0}};
  for (uint64_t seed = 0; seed < 120; ++seed) {
    std::string text = std::regex_replace(Comparison(seed).partitionedText(), std::regex(" +"), " ");
    for (Feature &feature : features)
      feature.found += text.find(feature.text) != std::string::npos;
  }
  for (const Feature &feature : features)
    EXPECT_GE(feature.found, feature.least) << feature.text;
  if (std::getenv("HYC_EQUIVALENCE_PRINT"))
    for (const Feature &feature : features)
      std::fprintf(stderr, "%4d of 120 graphs: %s\n", feature.found, feature.text);
}

static const std::pair<uint64_t, uint64_t> kSeeds = chosenSeeds("HYC_EQUIVALENCE_SEEDS", 240);

class Partitioned : public testing::TestWithParam<uint64_t> {};

TEST_P(Partitioned, ComputesWhatOneDeviceComputes) { Comparison(GetParam()).run(); }

INSTANTIATE_TEST_SUITE_P(RandomGraphs, Partitioned, testing::Range(kSeeds.first, kSeeds.first + kSeeds.second));
