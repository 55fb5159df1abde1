// What the driver writes, the runtime reads.
#include "ManifestText.h"
#include "TextTable.h"
#include "hycrt/manifest.h"

#include <gtest/gtest.h>

namespace {

hyc::ManifestFacts facts() {
  hyc::ManifestFacts facts;
  facts.name = "tiny \"quoted\" é";
  facts.planHash = "00c5b1e2f4a89d37";
  facts.schedule = "gpipe";
  facts.tp = 2;
  facts.pp = 3;
  facts.dp = 2;
  facts.microBatch = 4;
  facts.gradAccum = 5;
  facts.sequence = 64;
  facts.threads = 3;
  facts.learningRateSchedule = "cosine";
  facts.learningRate = 0.1 + 0.2;
  facts.warmupSteps = 7;
  facts.modelFiles = {"/models/a b.onnx", "/models/weights.data"};
  facts.stagePrograms = {"bin/stage0", "bin/stage1", "bin/stage2"};
  return facts;
}

TEST(Manifest, IsReadByTheRuntime) {
  auto manifest = hycrt::parseManifest(hyc::writeManifest(facts()), "/out");
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->name, "tiny \"quoted\" é");
  EXPECT_EQ(manifest->planHash, 0x00c5b1e2f4a89d37u);
  EXPECT_EQ(manifest->mesh.pp, 3);
  EXPECT_EQ(manifest->batch.samples, 4);
  EXPECT_EQ(manifest->batch.microBatches, 5);
  EXPECT_EQ(manifest->batch.sequence, 64);
  EXPECT_EQ(manifest->schedule, "gpipe");
  EXPECT_EQ(manifest->threads, 3);
  EXPECT_EQ(manifest->learningRate.kind, hycrt::LearningRateKind::kCosine);
  EXPECT_EQ(manifest->learningRate.base, 0.1 + 0.2); // every bit
  EXPECT_EQ(manifest->learningRate.warmupSteps, 7);
  EXPECT_EQ(manifest->modelFiles, facts().modelFiles);
  ASSERT_EQ(manifest->ranks.size(), 12u);
  for (size_t rank = 0; rank < 12; ++rank)
    EXPECT_EQ(manifest->ranks[rank].program, "bin/stage" + std::to_string(rank / 4));
}

TEST(TextTable, AlignsNumbersToTheRightAndCountsCodePoints) {
  hyc::TextTable table({"name", "bytes>"});
  EXPECT_TRUE(table.empty());
  table.add({"é", "1"});
  table.add({"long", "100"});
  EXPECT_EQ(table.str(), "name  bytes\né         1\nlong    100\n");
}

} // namespace
