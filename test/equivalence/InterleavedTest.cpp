// Interleaved 1F1B on random graphs: two to four chunks a stage, cut at any place, so that values hop over chunks, come
// back to the stage that made them, and weights are shared by chunks of one stage and of several; with ZeRO's stages on
// half of them. HYC_INTERLEAVED_SEEDS runs other seeds than these.
#include "Comparison.h"

#include <gtest/gtest.h>
#include <random>

using namespace hyc::equivalence;

namespace {

Comparison comparisonOf(uint64_t seed) {
  std::mt19937_64 random(seed * 53 + 11);
  auto oneOf = [&](std::initializer_list<const char *> choices) {
    return std::string(choices.begin()[random() % choices.size()]);
  };
  static const int64_t kMeshes[][3] = {{1, 2, 1}, {1, 2, 1}, {1, 3, 1}, {1, 4, 1},
                                       {2, 2, 1}, {1, 2, 2}, {2, 2, 2}, {1, 3, 2}};
  Comparison comparison(seed);
  const int64_t *mesh = kMeshes[random() % std::size(kMeshes)];
  Layout &layout = comparison.layout;
  layout.tp = mesh[0], layout.pp = mesh[1], layout.dp = mesh[2];
  layout.virtualStages = 2 + static_cast<int64_t>(random() % 3);
  layout.microBatches = layout.pp * (1 + static_cast<int64_t>(random() % 3));
  layout.microBatch = 1;
  layout.schedule = "1f1b";
  comparison.options.samples = layout.microBatch * layout.dp;
  comparison.options.headMultiple = layout.tp;
  comparison.options.blocks = 6 + static_cast<int64_t>(seed % 5);
  comparison.options.tiedPercent = seed % 2 ? 60 : 20;
  if (layout.dp > 1 && random() % 4) {
    comparison.options.widthFactor = 6;
    comparison.zero = "zero=" + oneOf({"1", "2", "3", "3"}) +
                      " gradient-reduction=" + oneOf({"step", "micro_batch", "auto"}) +
                      " persistence-threshold=" + oneOf({"0", "3000"}) + " prefetch=" + oneOf({"0", "1", "3"});
    comparison.policies = "stage3_max_live_parameters=" + oneOf({"1", "6000", "1000000"});
    comparison.policies += ",reductions_in_flight=" + oneOf({"0", "1", "3"});
  }
  return comparison;
}

} // namespace

/// What the seeds are meant to try does occur in them.
TEST(InterleavedGraphs, CoverEveryKindOfChunk) {
  expectFeatures({{R"(virtual_stages 2)", 10},
                  {R"(virtual_stages [34])", 10},
                  {R"(receive forward virtual_stage)", 60},
                  {R"(receive backward virtual_stage)", 60},
                  {R"(hyc\.func @backward\.7)", 5},
                  {R"(over <\{\} stages \[)", 10},
                  {R"(dist\.all_gather_start .*flat)", 5},
                  {R"(dist\.reduce_scatter_start .*flat)", 5}},
                 80, comparisonOf);
}

/// Chunks of one stage that add to one gradient: the first contribution of a step overwrites, whichever chunk makes it.
TEST(InterleavedGraphs, ShareWeightsBetweenChunksOfOneStage) {
  int shared = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    Comparison comparison = comparisonOf(seed);
    std::string text = comparison.partitionedText();
    for (const std::string &parameter : comparison.graphParameters())
      for (int64_t stage = 0; stage < comparison.layout.pp; ++stage) {
        int chunks = 0;
        for (int64_t k = 0; k < comparison.layout.virtualStages; ++k) {
          std::string name = "hyc.func @backward." + std::to_string(k * comparison.layout.pp + stage) + "(";
          size_t begin = text.find(name), end = text.find("hyc.func", begin + 1);
          size_t found = text.find(" into @" + parameter + ".grad", begin);
          chunks += begin != std::string::npos && found != std::string::npos && found < end;
        }
        shared += chunks > 1;
      }
  }
  EXPECT_GE(shared, 5);
}

static const std::pair<uint64_t, uint64_t> kSeeds = chosenSeeds("HYC_INTERLEAVED_SEEDS", 120);

class Interleaved : public testing::TestWithParam<uint64_t> {};

TEST_P(Interleaved, ComputesWhatOneDeviceComputes) { comparisonOf(GetParam()).run(); }

INSTANTIATE_TEST_SUITE_P(RandomGraphs, Interleaved, testing::Range(kSeeds.first, kSeeds.first + kSeeds.second));
