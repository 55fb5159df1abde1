// What a machine's file says of figures that several passes have told.
#include "machine_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "passes.h"

namespace hycbench {
namespace {

using testing::HasSubstr;

Figure ofRate(Measure measure, int64_t size, double rate, Tier tier = Tier::kNone) {
  return {measure, tier, size, static_cast<double>(size) / rate, rate};
}

nlohmann::json fileOf(const std::vector<Figure> &told, int passes) {
  Bench bench;
  bench.name = "here";
  bench.ranksHere = 2;
  bench.passes = passes;
  return nlohmann::json::parse(machineFile(bench, told));
}

TEST(Passes, BecomeTheMediansOfEachSize) {
  const std::vector<Figure> told = {
      ofRate(Measure::kMemory, 100, 20e9), ofRate(Measure::kProduct, 8, 1), ofRate(Measure::kProduct, 64, 4),
      ofRate(Measure::kMemory, 100, 33e9), ofRate(Measure::kProduct, 8, 3), // this one had no time for the larger
      ofRate(Measure::kMemory, 100, 30e9), ofRate(Measure::kProduct, 8, 2), ofRate(Measure::kProduct, 64, 6)};
  const std::vector<Figure> merged = mediansOf(told);
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].rate, 30e9);
  EXPECT_EQ(merged[1].rate, 2);
  EXPECT_EQ(merged[2].rate, 5) << "of an even number the mean of the middle two";
  const nlohmann::json file = fileOf(told, 3);
  EXPECT_EQ(file["memory"], 30000000000);
  EXPECT_EQ(file["products"], 5);
  EXPECT_EQ(file["product_share"][0]["share"], 0.4);
  EXPECT_THAT(file["sources"][0], HasSubstr("the median of 3 passes of 3 blocks"));
  EXPECT_EQ(file["sources"][1], "between passes differed most: memory 20 GB/s to 33 GB/s");
}

TEST(Passes, AreComparedByTheLargestSizes) {
  EXPECT_FALSE(widestSpread({ofRate(Measure::kMemory, 100, 20e9), ofRate(Measure::kHost, 100, 33)}));
  // A small exchange is never told twice alike.
  const std::optional<Spread> widest =
      widestSpread({ofRate(Measure::kAllReduce, 8, 1, Tier::kHost), ofRate(Measure::kAllReduce, 800, 50e9, Tier::kHost),
                    ofRate(Measure::kMemory, 100, 20e9), ofRate(Measure::kAllReduce, 8, 9, Tier::kHost),
                    ofRate(Measure::kAllReduce, 800, 100e9, Tier::kHost), ofRate(Measure::kMemory, 100, 30e9)});
  ASSERT_TRUE(widest);
  EXPECT_EQ(widest->ratio(), 2);
  EXPECT_EQ(describe(*widest), "all_reduce in a host 50 GB/s to 100 GB/s");
}

// The thin product and the one of a cache are of one pass each, in which both were slow, or neither.
TEST(Passes, CompareWhatWasMeasuredInTurnsWithinEach) {
  const auto seconds = [](Measure measure, double time) {
    return Figure{measure, Tier::kNone, kThinOperations, time, static_cast<double>(kThinOperations) / time};
  };
  const nlohmann::json file = fileOf({seconds(Measure::kThinProduct, 1.5), seconds(Measure::kCachedProduct, 1),
                                      seconds(Measure::kThinProduct, 6), seconds(Measure::kCachedProduct, 4),
                                      seconds(Measure::kThinProduct, 15), seconds(Measure::kCachedProduct, 2)},
                                     3);
  // Half as long again as the two seconds in the middle.
  EXPECT_NEAR(file["product_memory"].get<double>(), static_cast<double>(kThinBytes) / (0.5 * 2), 0.01 * kThinBytes);
}

} // namespace
} // namespace hycbench
