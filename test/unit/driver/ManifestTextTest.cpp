// What the driver writes, the runtime reads.
#include "Folder/ManifestText.h"
#include "Report/TextTable.h"
#include "hycrt/manifest.h"

#include <gtest/gtest.h>

namespace {

hyc::ManifestFacts facts() {
  hyc::ManifestFacts facts;
  facts.name = "tiny \"quoted\" é";
  facts.planHash = "00c5b1e2f4a89d37";
  facts.schedule = "gpipe";
  facts.stages = 3;
  facts.axes = {{"experts", 2}, {"dp", 2}}; // not in the order of their names
  facts.microBatch = 4;
  facts.gradAccum = 5;
  facts.sequence = 64;
  facts.data = "tokens";
  facts.threads = 3;
  facts.learningRate.learningRateSchedule = std::string("cosine");
  facts.learningRate.learningRate = 0.1 + 0.2;
  facts.learningRate.warmupSteps = 7;
  facts.modelFiles = {{"/models/a b.onnx", {3, 0, 0, {7}}},
                      {"/models/weights.data", {(1 << 20) + 1, 120, 0x8a9136aa, {0x01234567, 0xffffffff}}}};
  facts.stagePrograms = {"bin/stage0", "bin/stage1", "bin/stage2"};
  return facts;
}

TEST(Manifest, IsReadByTheRuntime) {
  auto manifest = hycrt::parseManifest(hyc::writeManifest(facts()), "/out");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->name, "tiny \"quoted\" é");
  EXPECT_EQ(manifest->planHash, 0x00c5b1e2f4a89d37u);
  EXPECT_EQ(describe(manifest->mesh), "pp 3 × experts 2 × dp 2");
  EXPECT_EQ(describe(manifest->mesh, manifest->ranks[6].at), "pp 1, experts 1, dp 0");
  EXPECT_EQ(manifest->batch.samples, 4);
  EXPECT_EQ(manifest->batch.microBatches, 5);
  EXPECT_EQ(manifest->batch.sequence, 64);
  EXPECT_EQ(manifest->schedule, "gpipe");
  EXPECT_EQ(manifest->data, hycrt::DataKind::kTokens);
  EXPECT_EQ(manifest->threads, 3);
  EXPECT_EQ(manifest->learningRate.kind, hycrt::LearningRateKind::kCosine);
  EXPECT_EQ(manifest->learningRate.base, 0.1 + 0.2); // every bit
  EXPECT_EQ(manifest->learningRate.warmupSteps, 7);
  ASSERT_EQ(manifest->modelFiles.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(manifest->modelFiles[i].path, facts().modelFiles[i].path);
    EXPECT_EQ(manifest->modelFiles[i].sums, facts().modelFiles[i].sums);
  }
  ASSERT_EQ(manifest->ranks.size(), 12u);
  for (size_t rank = 0; rank < 12; ++rank)
    EXPECT_EQ(manifest->ranks[rank].program, "bin/stage" + std::to_string(rank / 4));
}

hycrt::LearningRateRule ruleOf(const hyc::LearningRatePlan &options) {
  hyc::ManifestFacts changed = facts();
  changed.learningRate = options;
  auto manifest = hycrt::parseManifest(hyc::writeManifest(changed), "/out");
  EXPECT_TRUE(manifest.ok()) << manifest.status().message();
  return manifest.ok() ? manifest->learningRate : hycrt::LearningRateRule();
}

TEST(Manifest, CarriesEveryParameterOfEverySchedule) {
  hyc::LearningRatePlan options;
  options.learningRate = 0.5;
  options.warmupSteps = 7;
  options.warmupMinimum = 0.125;
  options.warmupMinimumRatio = 0.25;
  options.cosineMinimumRatio = 0.375;
  options.warmupType = std::string("linear");
  options.totalSteps = 99;
  for (auto [name, kind] : {std::pair{"WarmupLR", hycrt::LearningRateKind::kWarmup},
                            {"WarmupDecayLR", hycrt::LearningRateKind::kWarmupDecay},
                            {"WarmupCosineLR", hycrt::LearningRateKind::kWarmupCosine}}) {
    options.learningRateSchedule = std::string(name);
    hycrt::LearningRateRule rule = ruleOf(options);
    EXPECT_EQ(rule.kind, kind);
    EXPECT_EQ(rule.base, 0.5);
    EXPECT_EQ(rule.warmupSteps, 7);
    EXPECT_EQ(rule.warmupType, hycrt::WarmupType::kLinear);
    EXPECT_EQ(rule.totalSteps, kind == hycrt::LearningRateKind::kWarmup ? 0 : 99);
    EXPECT_EQ(rule.lowest, kind == hycrt::LearningRateKind::kWarmupCosine ? 0 : 0.125);
    EXPECT_EQ(rule.lowestRatio, kind == hycrt::LearningRateKind::kWarmupCosine ? 0.25 : 0);
    EXPECT_EQ(rule.finalRatio, kind == hycrt::LearningRateKind::kWarmupCosine ? 0.375 : 0);
  }
  options.learningRateSchedule = std::string("OneCycle");
  options.cycleMinimum = 0.0625;
  options.cycleDecayRate = 3;
  options.cycleFirstSteps = 11;
  options.cycleSecondSteps = 12;
  options.cycleFirstStairs = 13;
  options.cycleSecondStairs = 14;
  options.cycleDecaySteps = 15;
  options.cycleMomentum = true;
  options.cycleMomentumLeast = 0.25;
  options.cycleMomentumMost = 0.75;
  options.cycleMomentumDecay = 0.125;
  hycrt::LearningRateRule rule = ruleOf(options);
  EXPECT_EQ(rule.kind, hycrt::LearningRateKind::kOneCycle);
  EXPECT_EQ(rule.base, 0.5);
  EXPECT_EQ(rule.lowest, 0.0625);
  EXPECT_EQ(rule.cycle.decayRate, 3);
  EXPECT_EQ(rule.cycle.firstSteps, 11);
  EXPECT_EQ(rule.cycle.secondSteps, 12);
  EXPECT_EQ(rule.cycle.firstStairs, 13);
  EXPECT_EQ(rule.cycle.secondStairs, 14);
  EXPECT_EQ(rule.cycle.decaySteps, 15);
  EXPECT_TRUE(rule.cyclesMomentum());
  EXPECT_EQ(rule.cycle.momentumLeast, 0.25);
  EXPECT_EQ(rule.cycle.momentumMost, 0.75);
  EXPECT_EQ(rule.cycle.momentumDecayRate, 0.125);
}

TEST(TextTable, AlignsNumbersToTheRightAndCountsCodePoints) {
  hyc::TextTable table({"name", "bytes>"});
  EXPECT_TRUE(table.empty());
  table.add({"é", "1"});
  table.add({"long", "100"});
  EXPECT_EQ(table.str(), "name  bytes\né         1\nlong    100\n");
}

} // namespace
