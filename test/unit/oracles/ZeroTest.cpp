// Bytes of the model states and volume of communication, of planned models, against the tables of Rajbhandari et al.
// 2020 (ZeRO). f32 training with Adam has 16 bytes a parameter too: 4 of parameters, 4 of gradients, 8 of optimizer.
#include "PlannedModel.h"

#include <gtest/gtest.h>

using namespace hyc;
using namespace hyc::oracles;

namespace {

constexpr double kTolerance = 0.005;

/// A row of the tables, for Ψ = 7.5e9. A stage is one line more.
struct Row {
  const char *name;
  int64_t dp;
  double gigabytes;      // of states, each rank; GB = 1e9 bytes
  double elementsPerPsi; // sent in a step, one micro-batch, without the factor (N−1)/N of a ring
};

std::ostream &operator<<(std::ostream &stream, const Row &row) { return stream << row.name << " N " << row.dp; }

class States : public testing::TestWithParam<Row> {};

TEST_P(States, BytesAndVolumeAreThePublishedOnes) {
  const Row &row = GetParam();
  Gpt2Config config; // 7.5B of Narayanan et al. 2021
  config.layers = 36;
  config.heads = 32;
  config.width = 4096;
  config.positions = 2048;
  config.vocabulary = 51200;
  PlannedModel model(config, row.dp);
  double psi = static_cast<double>(countParameters(model.get()));
  PipelineOptions options;
  options.dp = row.dp;
  ASSERT_TRUE(model.plan(options));
  ASSERT_EQ(model.account().stages.size(), 1u);
  const StageAccount &stage = model.account().stages.front();

  double bytes = 0;
  for (const char *arena : {"parameters", "gradients", "optimizer"}) {
    const ArenaAccount *found = stage.findArena(arena);
    ASSERT_TRUE(found) << arena;
    bytes += static_cast<double>(found->bytes);
  }
  double expected = row.gigabytes * 1e9 * psi / 7.5e9;
  EXPECT_NEAR(bytes, expected, kTolerance * expected);

  double sent = 0;
  for (const ExchangeAccount &exchange : stage.exchanges)
    sent += exchange.sentBytesPerStep();
  double n = static_cast<double>(row.dp), volume = row.elementsPerPsi * psi * (n - 1) / n * 4;
  EXPECT_NEAR(sent, volume, kTolerance * volume);
}

INSTANTIATE_TEST_SUITE_P(Published, States, testing::Values(Row{"baseline", 4, 120, 2}, Row{"baseline", 64, 120, 2}));

} // namespace
