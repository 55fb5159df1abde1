// What must end, and how: a killed rank, an interrupt, layouts and batches that can't be.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace hyc_e2e;
namespace fs = std::filesystem;

namespace {

/// Processes whose executable lies in `folder`.
std::vector<pid_t> processesOf(const std::string &folder) {
  std::vector<pid_t> pids;
  for (const fs::directory_entry &entry : fs::directory_iterator("/proc")) {
    std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), ::isdigit))
      continue;
    std::error_code error;
    std::string executable = fs::read_symlink(entry.path() / "exe", error).string();
    if (!error && executable.rfind(folder, 0) == 0)
      pids.push_back(std::stoi(name));
  }
  return pids;
}

std::string contents(const std::string &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A long run of eight ranks that has begun to step.
class RunningJob : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::canonical(compiled({2, 2, 2, "1f1b", "adamw"})).string();
    output = folder + "/output.txt";
    std::string log = folder + "/long.jsonl";
    fs::remove(log);
    launcher =
        start({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "1000000", "--log-file", log}, output);
    for (int i = 0; i < 2000 && contents(log).find('\n') == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ranks = processesOf(folder);
    ASSERT_EQ(ranks.size(), 8u) << contents(output);
  }

  void TearDown() override {
    if (launcher > 0 && waitFor(launcher, 0) == -1)
      kill(launcher, SIGKILL);
  }

  /// In seconds. On a machine that is busy a moment is long; what does not come by then never comes.
  static constexpr double kSoon = 30;

  void expectNobodyLeft() {
    for (int i = 0; i < 3000 && !processesOf(folder).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(processesOf(folder).empty());
  }

  std::string folder, output;
  pid_t launcher = -1;
  std::vector<pid_t> ranks;
};

TEST_F(RunningJob, EndsAtOnceWithAKilledRank) {
  kill(ranks[3], SIGKILL);
  EXPECT_EQ(waitFor(launcher, kSoon), 128 + SIGKILL);
  launcher = -1;
  expectNobodyLeft();
  std::string text = contents(output);
  EXPECT_NE(text.find("rank"), std::string::npos) << text;
  EXPECT_NE(text.find("SIGKILL"), std::string::npos) << text;
}

TEST_F(RunningJob, LeavesNobodyBehindWhenInterrupted) {
  kill(launcher, SIGINT);
  EXPECT_EQ(waitFor(launcher, kSoon), 128 + SIGINT);
  launcher = -1;
  expectNobodyLeft();
}

TEST_F(RunningJob, LeavesNobodyBehindWhenTheLauncherIsKilled) {
  kill(launcher, SIGKILL);
  EXPECT_EQ(waitFor(launcher, kSoon), 128 + SIGKILL);
  launcher = -1;
  expectNobodyLeft();
}

TEST(Refusals, ThreeHeadsOverTp2) {
  std::string folder = scratch("three-heads");
  Outcome outcome = execute({tool("hyc-compile"), model("gpt2-3heads.onnx"), "--loss", "cross_entropy", "--logits",
                             "logits", "--labels", "labels", "--tp", "2", "--micro-batch", "1", "-o", folder});
  EXPECT_EQ(outcome.status, 65) << outcome.output;
  EXPECT_NE(outcome.output.find("has 3 heads, expected a multiple of 2"), std::string::npos) << outcome.output;
  EXPECT_FALSE(fs::exists(folder));
}

TEST(Refusals, MoreStagesThanLayers) {
  std::string folder = scratch("many-stages");
  Outcome outcome = execute({tool("hyc-compile"), model("gpt2-5layer.onnx"), "--loss", "cross_entropy", "--logits",
                             "logits", "--labels", "labels", "--pp", "64", "--micro-batch", "1", "-o", folder});
  EXPECT_EQ(outcome.status, 65) << outcome.output;
  EXPECT_NE(outcome.output.find("lower --pp to at most"), std::string::npos) << outcome.output;
}

class FiveLayers : public testing::TestWithParam<int> {};

TEST_P(FiveLayers, CutIntoStagesTrainAsOneDoes) {
  auto losses = [](int stages) {
    std::string folder = scratch("five-layers-" + std::to_string(stages));
    Outcome outcome = execute({tool("hyc-compile"),
                               model("gpt2-5layer.onnx"),
                               "--loss",
                               "cross_entropy",
                               "--logits",
                               "logits",
                               "--labels",
                               "labels",
                               "--pp",
                               std::to_string(stages),
                               "--micro-batch",
                               "2",
                               "--grad-accum",
                               "4",
                               "--optimizer",
                               "sgd",
                               "--lr",
                               "0.1",
                               "-o",
                               folder});
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return train(folder, 5).losses;
  };
  std::vector<double> one = losses(1), several = losses(GetParam());
  ASSERT_EQ(one.size(), several.size());
  for (size_t step = 0; step < one.size(); ++step)
    EXPECT_NEAR(several[step] / one[step], 1.0, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(TwoAndFour, FiveLayers, testing::Values(2, 4));

} // namespace
