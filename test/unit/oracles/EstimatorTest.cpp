// DeepSpeed's estimators (estimate_zero2_model_states_mem_needs and estimate_zero3_model_states_mem_needs) against
// hyc's account of the same model. The estimators add up, per GPU and parameter: 2 bytes of 16-bit parameters, 2 of
// 16-bit gradients, 16 of f32 parameters, gradients and two moments, divided over N ranks where the stage divides them;
// stage 3 has 4 bytes a parameter of the largest layer for what is gathered of it, parameters and gradients of 16 bits.
// They count nothing else: activations, buffers and temporaries are hyc's affair too, and reported beside them.
//
// hyc keeps the same quantities, but for two differences that each row states:
// - of gradients there is the f32 sum alone, no 16-bit copy beside it: 2 bytes less where the estimators have it;
// - what is offloaded are the optimizer's moments. f32 parameters and gradients stay on the device, 4 bytes each.
#include "PlannedModel.h"
#include "dialects/Rank/RankDialect.h"

#include <gtest/gtest.h>

using namespace hyc;
using namespace hyc::oracles;

namespace {

constexpr double kTolerance = 0.005;

struct Row {
  const char *name;
  int64_t stage;
  const char *offload;  // of the optimizer
  double whole, shared; // the estimator: bytes a parameter on every rank, and divided over N; without its window
  double notKept;       // of `shared`, what hyc has no copy of: 16-bit gradients
  double notMoved;      // what hyc keeps on the device besides: f32 gradients, divided over N
  bool hasWindow;       // the estimator has 4 bytes a parameter of the largest layer
};

std::ostream &operator<<(std::ostream &stream, const Row &row) { return stream << row.name; }

DecoderConfig publishedModel() {
  DecoderConfig config = defaultDecoder("gpt2"); // 7.5B of Narayanan et al. 2021
  config.layers = 36;
  config.heads = 32;
  config.width = 4096;
  config.positions = 2048;
  config.vocabulary = 51200;
  return config;
}

struct Account {
  double psi = 0;
  double states = 0; ///< bytes of all states on the device
  double window = 0; ///< of the arena of parameters beyond the states in it: what is gathered
  double whole = 0;  ///< all that the rank needs of the device
  double moved = 0;  ///< bytes of states off the device
};

Account planned(const DecoderConfig &config, Plan options) {
  PlannedModel model(config, options.dp);
  Account account;
  account.psi = static_cast<double>(countParameters(model.get()));
  if (!model.plan(options))
    return account;
  const StageAccount &stage = model.account().stages.front();
  double inParameters = 0;
  for (auto state : (*model.get().getOps<rank::ProgramOp>().begin()).getOps<rank::StateOp>()) {
    double bytes = static_cast<double>(state.getBufferType().getBytes());
    bool onDevice = state.getArena() != "host" && state.getArena() != "nvme";
    (onDevice ? account.states : account.moved) += bytes;
    if (state.getArena() == "parameters")
      inParameters += bytes;
  }
  account.whole = static_cast<double>(stage.deviceBytes());
  account.window = static_cast<double>(stage.findArena("parameters")->bytes) - inParameters;
  return account;
}

class Estimator : public testing::TestWithParam<std::tuple<Row, int64_t>> {};

TEST_P(Estimator, CountsTheStatesOfTheAccount) {
  const auto &[row, ranks] = GetParam();
  DecoderConfig config = publishedModel();
  Plan options;
  options.dp = ranks;
  options.zero = row.stage;
  options.precision = "bf16";
  options.offloadOptimizer = row.offload;
  Account account = planned(config, options);
  ASSERT_GT(account.whole, 0);
  double n = static_cast<double>(ranks), layer = static_cast<double>(config.vocabulary * config.width);
  double expected = account.psi * (row.whole + (row.shared - row.notKept + row.notMoved) / n);
  EXPECT_NEAR(account.states, expected, kTolerance * expected);
  // The largest layer's parameters alone; its gradient is a temporary of backward, counted with these.
  if (row.hasWindow) {
    EXPECT_GE(account.window, 2 * layer);
    EXPECT_LE(account.window, 1.01 * 2 * layer);
    EXPECT_LT(account.window, 4 * layer);
  }
  // The whole, which the estimators leave out.
  double estimate = account.psi * (row.whole + row.shared / n) + (row.hasWindow ? 4 * layer : 0);
  EXPECT_GT(account.whole, account.states + account.window);
  RecordProperty("estimated_gib", std::to_string(estimate / (1 << 30)));
  RecordProperty("planned_states_gib", std::to_string((account.states + account.window) / (1 << 30)));
  RecordProperty("planned_device_gib", std::to_string(account.whole / (1 << 30)));
}

INSTANTIATE_TEST_SUITE_P(
    DeepSpeed, Estimator,
    testing::Combine(testing::Values(Row{"stage 2", 2, "none", 2, 18, 2, 0, false},
                                     Row{"stage 2, optimizer on the CPU", 2, "cpu", 2, 0, 0, 4, false},
                                     Row{"stage 3", 3, "none", 0, 18, 0, 0, true},
                                     Row{"stage 3, optimizer on the CPU", 3, "cpu", 0, 2, 0, 4, true}),
                     testing::Values(8))); // over more ranks, small parameters that stay whole show

/// Full offload, 4 bytes a parameter of the largest layer: hyc moves parameters out in f32 only, where these are that
/// layer's parameters. Gradients stay.
TEST(EstimatorOfFullOffload, CountsTheWindowOfTheAccount) {
  DecoderConfig config = publishedModel();
  Plan options;
  options.dp = 8;
  options.zero = 3;
  options.offloadOptimizer = options.offloadParam = "cpu";
  Account account = planned(config, options);
  ASSERT_GT(account.whole, 0);
  double expected = account.psi * 4 / 8;
  EXPECT_NEAR(account.states, expected, kTolerance * expected);
  EXPECT_NEAR(account.moved, account.psi * 12 / 8, kTolerance * account.psi * 12 / 8);
}

} // namespace
