// Ranks that take different numbers of micro-batches of a step (hyc-run --batch-shares): the losses of one rank that
// takes all of them at once.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <string>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 4;
constexpr double kTolerance = 1e-5;

std::string compiledFor(const std::string &name, std::vector<std::string> layout) {
  layout.insert(layout.end(), {"--clip-grad-norm", "1"});
  return compiledTinyGpt2("uneven-" + name, layout);
}

/// Three micro-batches of two samples a step.
std::string onFourRanks(const std::string &name, const std::vector<std::string> &further) {
  std::vector<std::string> layout = {"--micro-batch", "2", "--grad-accum", "3"};
  layout.insert(layout.end(), further.begin(), further.end());
  return compiledFor(name, layout);
}

void expectEqual(const Log &actual, const Log &expected) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step] / expected.losses[step], 1.0, kTolerance) << "step " << step + 1;
    EXPECT_NEAR(actual.norms[step] / expected.norms[step], 1.0, 1e-4) << "step " << step + 1;
  }
}

/// Eight samples a step.
Log oneRank() { return train(compiledFor("one", {"--micro-batch", "8"}), kSteps); }

TEST(Uneven, SharesOfThreeAndOneTrainAsOneRankDoes) {
  const Log one = oneRank();
  ASSERT_EQ(one.losses.size(), static_cast<size_t>(kSteps));
  const std::vector<std::pair<std::string, std::vector<std::string>>> layouts = {
      {"pipeline", {"--pp", "2", "--dp", "2", "--zero", "1"}},
      {"gpipe", {"--pp", "2", "--dp", "2", "--schedule", "gpipe"}},
      {"tensor", {"--tp", "2", "--dp", "2"}}};
  for (const auto &[name, layout] : layouts) {
    SCOPED_TRACE(name);
    std::string folder = onFourRanks(name, layout);
    expectEqual(train(folder, kSteps, {"--batch-shares", "3,1"}), one);
    expectEqual(train(folder, kSteps, {"--batch-shares", "2,2"}), one);
  }
}

TEST(Uneven, ACheckpointIsGoneOnFromWithOtherShares) {
  const Log one = oneRank();
  std::string folder = onFourRanks("resumed", {"--dp", "2", "--zero", "1"}), checkpoints = folder + "/checkpoints";
  train(folder, 2, {"--batch-shares", "3,1", "--checkpoint", checkpoints});
  Log rest = train(folder, kSteps, {"--batch-shares", "1,3", "--resume", checkpoints});
  ASSERT_EQ(rest.losses.size(), 2u);
  for (size_t step = 0; step < 2; ++step)
    EXPECT_NEAR(rest.losses[step] / one.losses[step + 2], 1.0, kTolerance) << "step " << step + 3;
}

TEST(Uneven, SharesThatCannotBeAreRefused) {
  std::string folder = onFourRanks("refused", {"--dp", "2", "--zero", "2"});
  auto expectRefusal = [&](const std::string &shares, const std::string &message) {
    Outcome run =
        execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1", "--batch-shares", shares});
    EXPECT_EQ(run.status, 64) << run.output;
    EXPECT_NE(run.output.find(message), std::string::npos) << run.output;
  };
  expectRefusal("3;1", "--batch-shares is '3;1', expected how many micro-batches each data-parallel coordinate takes");
  expectRefusal("3,1,2", "--batch-shares has 3 numbers, but program '");
  expectRefusal("4,1", "--batch-shares gives coordinate 0 4 micro-batches, expected 1 to the 3");
  expectRefusal("2,0", "--batch-shares gives coordinate 1 0 micro-batches");
  expectRefusal("3,1", "ranks meet that would take different numbers of them (ZeRO 2 or 3, batch norm)");
  // Fewer of them, and as many everywhere, are no trouble.
  Outcome even =
      execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1", "--batch-shares", "2,2"});
  EXPECT_EQ(even.status, 0) << even.output;
}

} // namespace
