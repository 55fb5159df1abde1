// Scans: random graphs with them over random meshes, under random ZeRO stages, give what one device gives, rolled until
// they are loops of calls.
#include "Comparison.h"

#include <gtest/gtest.h>
#include <random>

using namespace hyc::equivalence;

namespace {

Comparison comparisonOf(uint64_t seed) {
  std::mt19937_64 random(seed * 71 + 3);
  Comparison comparison(seed);
  comparison.options.recurs = true;
  comparison.options.blocks = 2 + static_cast<int64_t>(seed % 4);
  comparison.policies = seed % 2 == 0 ? "poison=true" : "";
  if (comparison.layout.dp > 1) {
    comparison.zero = "zero=" + std::to_string(random() % 4) + " persistence-threshold=0";
    comparison.options.widthFactor = 6;
  }
  return comparison;
}

const std::pair<uint64_t, uint64_t> kSeeds = chosenSeeds("HYC_SCAN_SEEDS", 60);

class Scans : public testing::TestWithParam<uint64_t> {};

TEST_P(Scans, OfAllRanksAreThoseOfOne) { comparisonOf(GetParam()).run(); }

INSTANTIATE_TEST_SUITE_P(Graphs, Scans, testing::Range(kSeeds.first, kSeeds.first + kSeeds.second));

TEST(ScanGraphs, CoverWhatTheyAreFor) {
  expectFeatures({{"hyc.scan [0-9]+ init", 25}, {"hyc.scan [0-9]+ reverse", 25}, {"hyc.scan .*id = \"[^\"]*grad", 25}},
                 60, comparisonOf);
}

} // namespace
