// Which states leave the device: cheapest first, no more than have to, and none that is needed more often than others.
#include "Fit/StatePlacement.h"

#include <gtest/gtest.h>

using namespace hyc;

namespace {

constexpr int64_t kMega = 1000000;

/// A parameter of so many bytes under Adam.
void add(StageAccount &stage, std::vector<MovableParam> &params, const std::string &name, int64_t bytes, int64_t uses) {
  if (stage.arenas.empty())
    for (const char *arena : {"parameters", "gradients", "optimizer"}) {
      stage.arenas.emplace_back();
      stage.arenas.back().name = arena;
    }
  auto addTensor = [&](size_t arena, const std::string &symbol) {
    AccountedTensor tensor;
    tensor.kind = TensorKind::State;
    tensor.name = symbol;
    tensor.item.bytes = bytes;
    stage.arenas[arena].tensors.push_back(tensor);
  };
  addTensor(0, name);
  addTensor(1, name + ".grad");
  addTensor(2, name + ".m");
  addTensor(2, name + ".v");
  params.push_back({name, {name + ".m", name + ".v"}, name + ".grad", name, uses});
}

/// "a:gradient+optimizer b:placement"
std::string chosen(const std::optional<std::vector<PlanRule>> &rules) {
  if (!rules)
    return "too little";
  std::string text;
  for (const PlanRule &rule : *rules) {
    text += (text.empty() ? "" : " ") + rule.match + ":";
    for (const auto &[key, place] : rule.states) {
      EXPECT_EQ(place, "host");
      if (key != "master_placement")
        text += (text.back() == ':' ? "" : "+") + key.substr(0, key.find("_placement"));
    }
  }
  return text;
}

class StatePlacement : public testing::Test {
protected:
  StatePlacement() {
    job.stages.emplace_back();
    StageAccount &stage = job.stages.front();
    add(stage, params, "tied", 50 * kMega, 4);
    add(stage, params, "large", 50 * kMega, 2);
    add(stage, params, "middle", 10 * kMega, 2);
    add(stage, params, "small", kMega, 2);
  }
  std::string free(int64_t megabytes) { return chosen(placeStates(job, params, {megabytes * kMega}, {1e9, 1e-4, 8})); }

  JobAccount job;
  std::vector<MovableParam> params;
};

TEST_F(StatePlacement, NothingLeavesWhereAllFits) { EXPECT_EQ(free(0), ""); }

TEST_F(StatePlacement, TheLeastThatSufficesGoes) {
  EXPECT_EQ(free(1), "small:optimizer");
  EXPECT_EQ(free(3), "middle:optimizer");
  EXPECT_EQ(free(15), "middle:optimizer");
}

TEST_F(StatePlacement, LargeStatesGoBeforeManySmallOnes) {
  EXPECT_EQ(free(90), "tied:optimizer");
  EXPECT_EQ(free(110), "tied:optimizer middle:optimizer");
}

/// Of 222 MB of states in all the optimizer's are first; then parameters that are used least often.
TEST_F(StatePlacement, WhatIsUsedSeldomGoesBeforeWhatIsUsedOften) {
  EXPECT_EQ(free(222), "tied:optimizer large:optimizer middle:optimizer small:optimizer");
  std::string more = free(222 + 55);
  EXPECT_EQ(more.find("tied:optimizer+placement"), std::string::npos) << more;
  EXPECT_NE(more.find("large:"), std::string::npos) << more;
  EXPECT_EQ(free(1000), "too little");
}

TEST_F(StatePlacement, EveryStageIsFreedOfItsOwn) {
  job.stages.emplace_back();
  add(job.stages.back(), params, "other", 20 * kMega, 2);
  job.stages.back().stage = 1;
  EXPECT_EQ(chosen(placeStates(job, params, {0, 30 * kMega}, {1e9, 1e-4, 8})), "other:optimizer");
  EXPECT_EQ(chosen(placeStates(job, params, {kMega, 30 * kMega}, {1e9, 1e-4, 8})), "small:optimizer other:optimizer");
}

TEST_F(StatePlacement, WhatCanLeaveIsWhatThereAreRulesFor) {
  int64_t most = movableBytes(job, params).front();
  EXPECT_EQ(most, 4 * (50 + 50 + 10 + 1) * kMega);
  EXPECT_TRUE(placeStates(job, params, {most}, {1e9, 1e-4, 8}));
  EXPECT_FALSE(placeStates(job, params, {most + 1}, {1e9, 1e-4, 8}));
}

} // namespace
