// Dropout draws by counter: random graphs with dropout over random meshes, under random ZeRO stages and cuts, give what
// one device gives for the same keys. A single mask bit that differed would show: all arithmetic is f64.
#include "Comparison.h"

#include <gtest/gtest.h>
#include <random>

using namespace hyc::equivalence;

namespace {

Comparison comparisonOf(uint64_t seed) {
  std::mt19937_64 random(seed * 59 + 11);
  Comparison comparison(seed);
  comparison.options.drops = true;
  comparison.options.blocks = 3 + static_cast<int64_t>(seed % 4);
  comparison.beforeDifferentiation = "hyc-key-random-ops,";
  if (random() % 3 == 0) {
    comparison.seeds = "sequence-parallel=true";
    comparison.options.sizeMultiple = comparison.layout.tp;
  }
  if (comparison.layout.dp > 1) {
    comparison.zero = "zero=" + std::to_string(random() % 4) + " persistence-threshold=0";
    comparison.options.widthFactor = 6;
  }
  return comparison;
}

class Dropout : public testing::TestWithParam<uint64_t> {};

TEST_P(Dropout, OfAllRanksIsThatOfOne) { comparisonOf(GetParam()).run(); }

INSTANTIATE_TEST_SUITE_P(Graphs, Dropout, testing::Range<uint64_t>(0, 60));

TEST(DropoutGraphs, CoverWhatTheyAreFor) {
  expectFeatures({{"hyc.dropout_mask .* column", 25},
                  {"hyc.dropout_mask .* offsets %[0-9]+ ", 5},
                  {"hyc.attention .* dropout", 15},
                  {"hyc.attention .* random %[a-z0-9]+, %", 5},
                  {"hyc.transpose .*xi1>", 3}},
                 60, comparisonOf);
}

} // namespace
