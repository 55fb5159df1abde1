// Runs of whose ranks one is stopped, is slow, or cannot be ended: who waits says whom for, and nobody waits for ever.
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "compiled_folder.h"
#include "own_launch.h"
#include "run_command.h"

namespace {

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

constexpr Layout kEight{2, 2, 2};
const std::vector<std::string> kEndless{"--steps", "1000000000", "--exchange-timeout", "2"};

int countOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The process of a rank that hyc-run has started; -1: there is none.
pid_t processOf(const RunningCommand& launcher, int rank) {
  const std::string wanted = "RANK=" + std::to_string(rank);
  for (pid_t child : launcher.children()) {
    std::ifstream environment("/proc/" + std::to_string(child) + "/environ", std::ios::binary);
    for (std::string variable; std::getline(environment, variable, '\0');) {
      if (variable == wanted) return child;
    }
  }
  return -1;
}

class StoppedRank : public testing::Test {
 protected:
  std::vector<std::string> endless() const {
    std::vector<std::string> options = kEndless;
    options.insert(options.end(), {"--log-file", folder_ / "log"});
    return options;
  }
  void waitForSteps() const {
    for (int i = 0; i < 1000 && countOf(folder_.files().read("log"), "\n") < 3; ++i) usleep(10000);
  }

  CompiledFolder folder_{kEight};
};

TEST_F(StoppedRank, EndsTheRunWithItsNameAndWhoHasArrived) {
  RunningCommand command(folder_.command(endless()));
  waitForSteps();
  std::vector<pid_t> ranks = command.children();
  ASSERT_EQ(ranks.size(), 8u);
  kill(processOf(command, 3), SIGSTOP);
  const CommandResult result = command.finish();
  EXPECT_EQ(result.status, 69);
  EXPECT_GT(result.seconds, 1.9);
  EXPECT_LT(result.seconds, kSoon);
  EXPECT_CONTAINS(result.errors, "error: waited 2 s (--exchange-timeout) in ");
  EXPECT_CONTAINS(result.errors, " for rank 3 (pp 0, dp 1, tp 1), which ");
  EXPECT_CONTAINS(result.errors, "is stopped by a signal (process ");  // perhaps in the middle of an exchange
  EXPECT_CONTAINS(result.errors, ", state T); arrived: rank");
  EXPECT_EQ(countOf(result.errors, "error:"), 1) << result.errors;
  EXPECT_CONTAINS(result.errors, "ended with status 69; the other ranks were ended");
  for (pid_t rank : ranks) EXPECT_TRUE(hasEnded(rank)) << rank;
}

TEST_F(StoppedRank, WithoutALauncherEndsEveryOtherOne) {
  OwnLaunch launch(folder_, kEight, claimPort(), {}, endless());
  waitForSteps();
  kill(launch.ranks[6]->pid(), SIGSTOP);
  int told = 0;
  for (size_t rank = 0; rank < launch.ranks.size(); ++rank) {
    if (rank == 6) continue;
    const CommandResult result = launch.ranks[rank]->finish();
    EXPECT_TRUE(result.status == 69 || result.status == 75) << "rank " << rank << ": " << result.status;
    told += result.status == 69;
    EXPECT_CONTAINS(result.errors, "waited 2 s (--exchange-timeout) in ");
    EXPECT_CONTAINS(result.errors, " for rank 6 (pp 1, dp 1, tp 0), which ");
    EXPECT_CONTAINS(result.errors, "is stopped by a signal (process ");
  }
  EXPECT_GE(told, 1);
  kill(launch.ranks[6]->pid(), SIGCONT);
  EXPECT_EQ(launch.ranks[6]->finish().status, 75);
}

TEST_F(StoppedRank, ThatGoesOnInTimeIsNoMatter) {
  RunningCommand command(
      folder_.command({"--steps", "3000", "--exchange-timeout", "5", "--log-file", folder_ / "log"}));
  waitForSteps();
  const pid_t rank = processOf(command, 5);
  ASSERT_GT(rank, 0);
  kill(rank, SIGSTOP);
  sleep(2);
  kill(rank, SIGCONT);
  const CommandResult result = command.finish();
  EXPECT_EQ(result.status, 0) << result.errors;
}

// A job that is suspended as a whole has waited for nobody.
TEST_F(StoppedRank, WithAllTheOthersIsNoMatterEither) {
  RunningCommand command(folder_.command(endless()));
  waitForSteps();
  const std::vector<pid_t> ranks = command.children();
  for (pid_t rank : ranks) kill(rank, SIGSTOP);
  sleep(3);
  const int before = countOf(folder_.files().read("log"), "\n");
  for (pid_t rank : ranks) kill(rank, SIGCONT);
  for (int i = 0; i < 6000 && countOf(folder_.files().read("log"), "\n") < before + 10; ++i) usleep(10000);
  EXPECT_GE(countOf(folder_.files().read("log"), "\n"), before + 10);
  kill(command.pid(), SIGTERM);
  const CommandResult result = command.finish();
  EXPECT_EQ(result.status, 143) << result.errors;
}

TEST_F(StoppedRank, IsToldFromASlowOne) {
  const CommandResult result = runCommand(folder_.command(kEndless), {{"MINIATURE_FAULT", "4 2 hang"}});
  EXPECT_EQ(result.status, 69);
  EXPECT_CONTAINS(result.errors, " for rank 4 (pp 1, dp 0, tp 0), which is slow: it runs, and has not come so far");
  EXPECT_CONTAINS(result.errors, "; raise --exchange-timeout where it needs longer");
}

TEST_F(StoppedRank, IsWaitedForWithoutAnEndWhereThatIsAsked) {
  RunningCommand command(
      folder_.command({"--steps", "1000000000", "--exchange-timeout", "0", "--log-file", folder_ / "log"}));
  waitForSteps();
  kill(processOf(command, 3), SIGSTOP);
  EXPECT_EQ(command.finish(3).status, -1);
}

// A tracer keeps a killed process from its parent for as long as it likes, as a dead disk keeps it from ending.
TEST_F(StoppedRank, ThatDoesNotEndByAnythingHoldsNoLauncher) {
  RunningCommand command(folder_.command(endless()));
  waitForSteps();
  const pid_t rank = processOf(command, 7);
  ASSERT_GT(rank, 0);
  if (ptrace(PTRACE_SEIZE, rank, nullptr, nullptr) != 0) GTEST_SKIP() << "processes may not be traced here";
  kill(command.pid(), SIGINT);
  const CommandResult result = command.finish();
  EXPECT_EQ(result.status, 130);
  EXPECT_LT(result.seconds, kSoon);
  EXPECT_CONTAINS(result.errors, "hyc-run: rank 7 (process " + std::to_string(rank) + ", state Z) does not end");
  waitpid(rank, nullptr, __WALL);
}

}  // namespace
