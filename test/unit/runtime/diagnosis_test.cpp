// What a run tells whoever looks for a fault: where its ranks are (SIGUSR1), as much as HYC_LOG asks for, and why a
// rank has failed in the file that torchrun's agent reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "compiled_folder.h"
#include "own_launch.h"
#include "run_command.h"

namespace {

using testing::HasSubstr;
using testing::Not;

constexpr Layout kEight{2, 2, 2}, kOne{1, 1, 1};

int linesOf(const std::string& text, const std::string& pattern) {
  const std::regex wanted(pattern);
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), wanted), std::sregex_iterator()));
}

void awaitSteps(const CompiledFolder& folder, const std::string& log, int steps) {
  const auto has = [&] {
    const std::string text = folder.files().read(log);
    return std::count(text.begin(), text.end(), '\n') >= steps;
  };
  for (int i = 0; i < 2000 && !has(); ++i) usleep(5000);
  ASSERT_TRUE(has());
}

std::string lossesOf(const CompiledFolder& folder, const std::string& log) {
  std::string losses;
  std::istringstream lines(folder.files().read(log));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (record.contains("loss")) losses += record["loss"].dump() + "\n";
  }
  return losses;
}

pid_t rankOf(const RunningCommand& launcher, int rank) {
  for (pid_t child : launcher.children()) {
    std::ifstream file("/proc/" + std::to_string(child) + "/environ", std::ios::binary);
    for (std::string variable; std::getline(file, variable, '\0');) {
      if (variable == "RANK=" + std::to_string(rank)) return child;
    }
  }
  return -1;
}

TEST(Whereabouts, NameTheRankThatAllTheOthersWaitFor) {
  CompiledFolder folder(kEight);
  RunningCommand running(folder.command({"--steps", "1000000000", "--log-file", folder / "log"}));
  awaitSteps(folder, "log", 3);
  const pid_t stopped = rankOf(running, 3);
  ASSERT_GT(stopped, 0);
  kill(stopped, SIGSTOP);
  usleep(1500000);  // until those that wait for it have found that out
  kill(running.pid(), SIGUSR1);
  usleep(1200000);
  kill(running.pid(), SIGINT);
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 130) << result.errors;
  for (int rank : {0, 1, 2, 4, 5, 6, 7}) {
    EXPECT_EQ(linesOf(result.errors, "rank " + std::to_string(rank) +
                                         ": is at: step [0-9]+ of 1000000000.*, for [0-9.]+ s: it waits in .* for "),
              1)
        << result.errors;
  }
  EXPECT_EQ(linesOf(result.errors, "rank 3: is at"), 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("rank 3 (pp 0, dp 1, tp 1), which "));
  EXPECT_THAT(result.errors, HasSubstr("is stopped by a signal (process " + std::to_string(stopped)));
}

TEST(Whereabouts, DisturbNothing) {
  CompiledFolder folder(kEight);
  const std::vector<std::string> steps{"--steps", "400"};
  EXPECT_EQ(runCommand(folder.command({"--steps", "400", "--log-file", folder / "quiet"})).status, 0);
  RunningCommand running(folder.command({"--steps", "400", "--log-file", folder / "asked"}));
  awaitSteps(folder, "asked", 1);
  for (int i = 0; i < 20; ++i) {
    kill(running.pid(), SIGUSR1);
    usleep(10000);
  }
  const CommandResult result = running.finish();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_GE(linesOf(result.errors, "rank [0-7]: is at: "), 1) << result.errors;
  const std::string quiet = lossesOf(folder, "quiet");
  EXPECT_EQ(std::count(quiet.begin(), quiet.end(), '\n'), 400);
  EXPECT_EQ(lossesOf(folder, "asked"), quiet);
}

TEST(Whereabouts, AreToldByARankThatNobodyElseHasStarted) {
  CompiledFolder folder(kOne);
  RunningCommand alone({folder / "bin/stage0", "--out", folder.path(), "--data", folder / "text", "--threads", "1",
                        "--steps", "1000000000", "--log-file", folder / "log"});
  awaitSteps(folder, "log", 1);
  kill(alone.pid(), SIGUSR1);
  usleep(800000);
  kill(alone.pid(), SIGTERM);
  const CommandResult result = alone.finish();
  EXPECT_EQ(linesOf(result.errors, "rank 0: is at: step [0-9]+ of 1000000000.*: it waits for no rank"), 1)
      << result.errors;
  // One of two that never come: where it is before it has met them.
  CompiledFolder pair(Layout{2, 1, 1});
  RunningCommand first(
      {pair / "bin/stage0", "--out", pair.path(), "--data", pair / "text", "--threads", "1"},
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(claimPort())}});
  usleep(700000);
  kill(first.pid(), SIGUSR1);
  usleep(800000);
  kill(first.pid(), SIGTERM);
  EXPECT_THAT(first.finish().errors, HasSubstr("rank 1: is at: meets the other ranks, for "));
}

TEST(LogLevel, RulesWhatRanksSayOfThemselves) {
  CompiledFolder folder(Layout{2, 1, 1});
  const auto run = [&](const std::string& level) {
    return runCommand(folder.command({"--steps", "5"}), {{"HYC_LOG", level}});
  };
  EXPECT_THAT(run("info").errors, HasSubstr("communication: "));
  EXPECT_THAT(run("warning").errors, Not(HasSubstr("communication: ")));
  EXPECT_EQ(run("error").errors, "");
  const CommandResult all = run("debug");
  EXPECT_THAT(all.errors, HasSubstr("rank 1: debug: meets the other ranks"));
  EXPECT_THAT(all.errors, HasSubstr("rank 1: debug: rank 1 of 2, 2 on this host; by "));
  EXPECT_THAT(all.errors, HasSubstr("communication: "));
  const CommandResult loud = run("loud");
  EXPECT_EQ(loud.status, 64);
  EXPECT_EQ(loud.errors,
            "hyc-run: error: environment variable HYC_LOG is 'loud', expected error, warning, info or debug\n");
  const CommandResult alone = runCommand({folder / "bin/stage0", "--out", folder.path()}, {{"HYC_LOG", "loud"}});
  EXPECT_EQ(alone.status, 64);
  EXPECT_THAT(alone.errors, HasSubstr("error: environment variable HYC_LOG is 'loud', expected error, warning, "));
}

// What torch/distributed/elastic/multiprocessing/api.py reads of it: message, and in it extraInfo and its timestamp.
TEST(ErrorFile, TellsTorchrunWhy) {
  CompiledFolder folder(kOne);
  const std::vector<std::string> words{folder / "bin/stage0", "--out", folder.path(), "--data", folder / "absent"};
  const std::string path = folder / "error.json";
  const CommandResult result = runCommand(words, {{"TORCHELASTIC_ERROR_FILE", path}});
  EXPECT_EQ(result.status, 74) << result.errors;
  const nlohmann::json file = nlohmann::json::parse(folder.files().read("error.json"));
  const nlohmann::json& message = file.at("message");
  EXPECT_THAT(message.at("message").get<std::string>(), HasSubstr("rank 0: cannot open '" + (folder / "absent") + "'"));
  const nlohmann::json& extra = message.at("extraInfo");
  EXPECT_THAT(extra.at("py_callstack").get<std::string>(), HasSubstr("(status 74)"));
  EXPECT_LE(std::abs(std::stoll(extra.at("timestamp").get<std::string>()) - time(nullptr)), 60);
  // Of hyc-run that is to become a rank, too.
  const CommandResult unready =
      runCommand({kHycRun, folder / "nowhere", "--as-rank"},
                 {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_ERROR_FILE", folder / "unready.json"}});
  EXPECT_EQ(unready.status, 74) << unready.errors;
  EXPECT_THAT(folder.files().read("unready.json"), HasSubstr("rank 1: cannot open '"));
  // A run that goes well leaves none, and where none can be made the run ends as it would.
  const CommandResult nowhere = runCommand(words, {{"TORCHELASTIC_ERROR_FILE", folder / "none/error.json"}});
  EXPECT_EQ(nowhere.status, 74);
  EXPECT_THAT(nowhere.errors,
              HasSubstr("warning: torchrun will not be told why (TORCHELASTIC_ERROR_FILE): cannot make"));
  const std::string unused = folder / "unused.json";
  EXPECT_EQ(runCommand({folder / "bin/stage0", "--out", folder.path(), "--data", folder / "text", "--steps", "1"},
                       {{"TORCHELASTIC_ERROR_FILE", unused}})
                .status,
            0);
  EXPECT_NE(access(unused.c_str(), F_OK), 0);
}

}  // namespace
