// Convolutions, pooling, group norms, orders, running sums and products: random graphs with them over random meshes,
// under random ZeRO stages, give what one device gives.
#include "Comparison.h"

#include <gtest/gtest.h>
#include <random>

using namespace hyc::equivalence;

namespace {

Comparison comparisonOf(uint64_t seed) {
  std::mt19937_64 random(seed * 67 + 5);
  Comparison comparison(seed);
  comparison.options.slides = true;
  comparison.options.blocks = 3 + static_cast<int64_t>(seed % 4);
  if (comparison.layout.dp > 1) {
    comparison.zero = "zero=" + std::to_string(random() % 4) + " persistence-threshold=0";
    comparison.options.widthFactor = 6;
  }
  return comparison;
}

class Windows : public testing::TestWithParam<uint64_t> {};

TEST_P(Windows, OfAllRanksAreThoseOfOne) { comparisonOf(GetParam()).run(); }

INSTANTIATE_TEST_SUITE_P(Graphs, Windows, testing::Range<uint64_t>(0, 60));

TEST(WindowGraphs, CoverWhatTheyAreFor) {
  expectFeatures({{"hyc.convolution ", 25},
                  {"hyc.convolution_transpose ", 25},
                  {"hyc.convolution_weight ", 25},
                  {"hyc.max_pool ", 10},
                  {"hyc.resample ", 10},
                  {"hyc.argsort ", 8},
                  {"hyc.group_norm ", 8},
                  {"hyc.gather ", 8},
                  {"hyc.scatter +sum", 10},
                  {"hyc.cumsum ", 8},
                  {"hyc.reduce +prod", 8}},
                 60, comparisonOf);
}

} // namespace
