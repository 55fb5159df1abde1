// Which layouts of a search are planned, in which order, and what comes of those that do not fit or cannot be planned:
// by plans that are made up.
#include "Fit/LayoutPlanning.h"

#include <gtest/gtest.h>

using namespace hyc;

namespace {

class LayoutPlanningTest : public testing::Test {
protected:
  LayoutPlanningTest() {
    request.limit = machine.deviceMemory = 1000;
    options.ranks = std::vector<int64_t>{8};
  }

  /// A layout that differs from others in its micro-batch, and what its plan needs.
  ScoredLayout &add(int64_t dp, int64_t micro, double estimate, int64_t bytes) {
    ScoredLayout scored;
    scored.layout.dp = dp, scored.layout.microBatch = micro;
    scored.cost.bytes = estimate;
    needs[{dp, micro}] = bytes;
    found.best.push_back(scored);
    ++found.scored;
    return found.best.back();
  }

  void run(size_t wanted = 3) {
    means.emplace(SearchMeans{{}, machine, [this](const CompileOptions &tried) { return replan(tried); }, listener});
    planning.emplace(request, options, *means, wanted);
    planning->run(found);
  }

  llvm::Expected<PlannedJob> replan(const CompileOptions &tried) {
    ++plans;
    int64_t bytes = needs.at({*tried.dp, *tried.microBatch});
    if (bytes < 0)
      return makeError(ExitCode::Data, "dp " + llvm::Twine(*tried.dp) + " is too many");
    PlannedJob job;
    job.account.dp = *tried.dp;
    job.account.stages.emplace_back();
    job.account.stages.front().fixedBytes = bytes;
    return job;
  }

  static constexpr int64_t kFails = -1;
  SearchRequest request;
  CompileOptions options;
  MachineRates machine;
  CompileListener listener;
  SearchResult found;
  std::optional<SearchMeans> means;
  std::optional<LayoutPlanning> planning;
  std::map<std::pair<int64_t, int64_t>, int64_t> needs;
  int plans = 0;
};

TEST_F(LayoutPlanningTest, TheFastestThatFitAreTaken) {
  for (int64_t micro = 1; micro <= 5; ++micro)
    add(1, micro, micro == 2 ? 900 : 700, micro == 2 ? 1100 : 700);
  run();
  ASSERT_EQ(planning->fitting.size(), 3u);
  EXPECT_EQ(planning->fitting.front().layout.microBatch, 1);
  EXPECT_EQ(planning->planned, 4u);
  EXPECT_NEAR(planning->worst, 1100.0 / 900, 1e-9);
}

TEST_F(LayoutPlanningTest, WhereManyAreJustTooLargeTheSmallestIsStillLookedAt) {
  for (int64_t micro = 1; micro <= 100; ++micro)
    add(1, micro, 999, 1001);
  found.smallest.push_back(add(1, 200, 800, 900));
  run();
  ASSERT_EQ(planning->fitting.size(), 1u);
  EXPECT_EQ(planning->fitting.front().layout.microBatch, 200);
  ASSERT_TRUE(planning->closest);
  EXPECT_EQ(planning->closest->bytes, 1001);
}

TEST_F(LayoutPlanningTest, WhatCannotBePlannedIsToldAndKeepsNothingElseFromBeingFound) {
  for (int64_t micro = 1; micro <= 50; ++micro)
    add(8, micro, 500, kFails);
  add(4, 1, 500, 500);
  run();
  ASSERT_EQ(planning->fitting.size(), 1u);
  EXPECT_EQ(planning->fitting.front().layout.dp, 4);
  EXPECT_EQ(planning->failures, 1u) << "others of its mesh wait";
  ASSERT_TRUE(planning->failure);
  EXPECT_EQ(planning->failure->reason, "dp 8 is too many");
}

TEST_F(LayoutPlanningTest, OthersOfAMeshThatFailedAreTriedWhereNothingElseFits) {
  add(8, 1, 500, kFails);
  add(8, 2, 500, 500);
  add(4, 1, 500, 2000);
  run();
  ASSERT_EQ(planning->fitting.size(), 1u);
  EXPECT_EQ(planning->fitting.front().layout.microBatch, 2);
}

TEST_F(LayoutPlanningTest, LayoutsThatDifferInWhatMayLeaveTheDeviceAreOne) {
  ScoredLayout moved = add(1, 1, 900, 900);
  moved.layout.room = 1000, moved.layout.offloadOptimizer = "cpu";
  found.best.push_back(moved);
  found.best.insert(found.best.begin(), moved);
  run();
  ASSERT_EQ(planning->fitting.size(), 1u);
  EXPECT_EQ(planning->fitting.front().layout.room, 0) << "nothing has left it";
  EXPECT_EQ(planning->fitting.front().layout.offloadOptimizer.str(), "none");
  EXPECT_EQ(plans, 1);
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

TEST(DeviceLimits, AKindHasItsOwnAlsoWhereTheMachineTellsNone) {
  CompileOptions options;
  MachineRates machine;
  machine.kinds = {{"a", 1}, {"b", 1, 0, 0, 0, 0, 1000}};
  llvm::Expected<MachineRates> limited = withMemoryLimits(options, machine);
  ASSERT_TRUE(static_cast<bool>(limited));
  EXPECT_EQ(limitOfStage(options, *limited, 0, 1).bytes, 0) << "not limited";
  DeviceLimit both = limitOfStage(options, *limited, 0, 2);
  EXPECT_EQ(both.bytes, 1000);
  EXPECT_EQ(both.source, "kind \"b\" of --machine");
}

TEST(DeviceLimits, TheFlagIsInPlaceOfTheMachinesFigureAndBesideThatOfAKind) {
  CompileOptions options;
  options.deviceMemory.offer("5000", Origin::Flag, "--device-memory");
  MachineRates machine;
  machine.deviceMemory = 2000;
  machine.kinds = {{"a", 1, 0, 0, 0, 0, 2000}, {"b", 1, 0, 0, 0, 0, 1000}};
  llvm::Expected<MachineRates> limited = withMemoryLimits(options, machine);
  ASSERT_TRUE(static_cast<bool>(limited));
  DeviceLimit first = limitOfStage(options, *limited, 0, 1), second = limitOfStage(options, *limited, 1, 1);
  EXPECT_EQ(first.bytes, 5000);
  EXPECT_EQ(first.source, "--device-memory");
  EXPECT_EQ(second.bytes, 1000);
  EXPECT_EQ(second.source, "kind \"b\" of --machine");
}

} // namespace
