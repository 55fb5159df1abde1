// Sequence parallelism on random graphs: the sequence split over tp between the blocks, with and without ZeRO.
// HYC_SEQUENCE_SEEDS runs other seeds than these.
#include "Comparison.h"

#include <gtest/gtest.h>
#include <random>

using namespace hyc::equivalence;

static Comparison comparisonOf(uint64_t seed) {
  std::mt19937_64 random(seed * 131 + 3);
  static const int64_t kMeshes[][3] = {{2, 1, 1}, {4, 1, 1}, {3, 1, 1}, {2, 2, 1}, {2, 1, 2}, {2, 2, 2}, {2, 3, 1}};
  Comparison comparison(seed);
  const int64_t *mesh = kMeshes[random() % std::size(kMeshes)];
  Layout &layout = comparison.layout;
  layout.tp = mesh[0], layout.pp = mesh[1], layout.dp = mesh[2];
  comparison.options.samples = layout.microBatch * layout.dp;
  comparison.options.headMultiple = layout.tp;
  comparison.options.sizeMultiple = layout.tp;
  comparison.seeds = "sequence-parallel=true";
  if (layout.dp > 1 && random() % 2) {
    comparison.options.widthFactor = 4;
    comparison.zero = "zero=" + std::to_string(1 + random() % 3) + " persistence-threshold=0";
  }
  return comparison;
}

/// What the seeds are meant to try does occur in them.
TEST(SequenceParallelGraphs, ScatterWhereBlocksEndAndGatherWhereTheyBegin) {
  expectFeatures({{R"(dist\.reduce_scatter_start .*dim 1 over <\{tp\}>)", 40},
                  {R"(dist\.all_gather_start .*dim 1 over <\{tp\}>)", 40},
                  {R"(dist\.all_gather_start .*dim 1 over <\{tp\}>.*hyc\.backward)", 40}},
                 80, comparisonOf);
}

static const std::pair<uint64_t, uint64_t> kSeeds = chosenSeeds("HYC_SEQUENCE_SEEDS", 80);

class SequenceParallel : public testing::TestWithParam<uint64_t> {};

// A graph of which a dimension is reshaped so that its parts are no whole rows any more is refused, and says so.
TEST_P(SequenceParallel, ComputesWhatOneDeviceComputes) {
  Comparison comparison = comparisonOf(GetParam());
  std::string refusal;
  if (comparison.isAccepted(refusal))
    comparison.run();
  else
    EXPECT_NE(refusal.find("reshaped to dimensions that do not divide alike"), std::string::npos) << refusal;
}

INSTANTIATE_TEST_SUITE_P(RandomGraphs, SequenceParallel, testing::Range(kSeeds.first, kSeeds.first + kSeeds.second));
