// What becomes of ranks where the system has no more descriptors, threads or processes for them: they manage with few,
// or end with 69 and the limit that was hit. Limits of processes do not hold for root, so root's tests run as user
// nobody.
#include "base/limits.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/threads.h"
#include "claimed_port.h"
#include "compiled_folder.h"
#include "forked_ranks.h"
#include "run_command.h"
#include "test_mesh.h"

namespace {

using hycrt::Status;

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

constexpr uid_t kNobody = 65534;
constexpr int kRanks = 16;

bool becomeOrdinary() {
  if (geteuid() != 0) return true;
  return setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0;
}

// Besides those that this process has been given already, whoever has started it.
void limitDescriptors(rlim_t further) {
  rlim_t open = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) open += fcntl(descriptor, F_GETFD) >= 0;
  const rlimit limit{open + further, open + further};
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Nothing but the mesh: ranks meet, and wait for each other.
hycrt::Program emptyProgram() {
  hycrt::Program program{};
  program.name = "empty";
  program.mesh = hycrt::meshOf(1, 1, kRanks);
  return program;
}

std::vector<RankOutcome> meetWith(rlim_t furtherDescriptors, int limitedRank) {
  return runRanks(kRanks, [=](const hycrt::Environment& environment) -> Status {
    const hycrt::Program program = emptyProgram();
    if (!becomeOrdinary()) return hycrt::internalError("cannot become another user");
    if (limitedRank < 0 || limitedRank == environment.rank) limitDescriptors(furtherDescriptors);
    auto side = HostSide::connect(program, environment, {});
    if (!side.ok()) return side.status();
    HYCRT_RETURN_IF_ERROR((*side)->exchanger->barrier());
    return (*side)->exchanger->leave(true);
  });
}

TEST(Descriptors, OfSixtyFourSixteenRanksHaveEnough) {
  for (const RankOutcome& outcome : meetWith(58, -1)) {
    EXPECT_EQ(outcome.code, hycrt::StatusCode::kOk) << outcome.message;
    EXPECT_EQ(outcome.signal, 0);
  }
}

// A descriptor for each of the others is more than rank 5 may have.
TEST(Descriptors, ThatRunOutEndTheRankWithTheirLimit) {
  const std::vector<RankOutcome> outcomes = meetWith(7, 5);
  EXPECT_EQ(outcomes[5].code, hycrt::StatusCode::kUnavailable) << outcomes[5].message;
  EXPECT_CONTAINS(outcomes[5].message, "descriptors open at once (ulimit -n)");
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.signal, 0);
    EXPECT_LT(outcome.seconds, 20);
  }
}

// What a probe cannot see: the threads go to somebody else before OpenMP starts its own, which then calls exit(1). The
// handler of an earlier start is there, and so is the limit, but for this start.
TEST(Threads, ThatOpenMpCannotHaveEndTheProcessWithTheirLimit) {
  const std::vector<RankOutcome> outcomes = runRanks(1, [](const hycrt::Environment&) -> Status {
    if (!becomeOrdinary()) return hycrt::internalError("cannot become another user");
    const auto tell = [](const Status& status) { endRank(status); };
    HYCRT_RETURN_IF_ERROR(hycrt::startTeam(1, tell));
    const rlimit limit{1, 1};
    setrlimit(RLIMIT_NPROC, &limit);
    hycrt::startProbedTeam(4, tell);
    return {};
  });
  EXPECT_EQ(outcomes[0].code, hycrt::StatusCode::kUnavailable) << outcomes[0].message;
  EXPECT_CONTAINS(outcomes[0].message, "cannot start a thread for computing: Resource temporarily unavailable");
  EXPECT_CONTAINS(outcomes[0].message, "the limit of 1 processes and threads of this user (ulimit -u)");
}

class LimitedRun : public testing::Test {
 protected:
  void SetUp() override {
    if (access("/usr/bin/prlimit", X_OK) != 0 || access("/usr/bin/setpriv", X_OK) != 0) {
      GTEST_SKIP() << "prlimit and setpriv (util-linux) are not here";
    }
    chmod(folder_.path().c_str(), 0755);
  }
  // hyc-run, or another command, under a limit, as an ordinary user.
  CommandResult run(const std::string& limit, const std::vector<std::string>& command) {
    std::vector<std::string> words;
    if (geteuid() == 0) words = {"/usr/bin/setpriv", "--reuid=65534", "--clear-groups"};
    words.insert(words.end(), {"/usr/bin/prlimit", limit});
    words.insert(words.end(), command.begin(), command.end());
    return runCommand(words);
  }

  CompiledFolder folder_{Layout{2, 2, 2}};
};

TEST_F(LimitedRun, WithoutDescriptorsForItsPipesSaysSo) {
  const CommandResult result = run("--nofile=12:12", folder_.command({"--steps", "2"}));
  EXPECT_EQ(result.status, 69) << result.errors;
  EXPECT_CONTAINS(result.errors, "this process may have 12 descriptors open at once (ulimit -n)");
}

TEST_F(LimitedRun, TakesMoreDescriptorsWhereItMay) {
  const CommandResult result = run("--nofile=12:256", folder_.command({"--steps", "2"}));
  EXPECT_EQ(result.status, 0) << result.errors;
}

// A hyc-run that another host's has started; its input stays open.
TEST_F(LimitedRun, TakesMoreDescriptorsOnAnotherHostToo) {
  std::string task = "hyc-run agent 1\n";
  const std::vector<std::pair<std::string, std::string>> rows{{"folder", folder_.path()},
                                                              {"directory", folder_.path()},
                                                              {"token", std::string(64, '7')},
                                                              {"run", uniqueSocketName()},
                                                              {"master", "127.0.0.1"},
                                                              {"port", std::to_string(claimPort())},
                                                              {"first", "0"},
                                                              {"count", "8"},
                                                              {"argument", "--data=" + folder_ / "text"},
                                                              {"argument", "--threads=1"},
                                                              {"argument", "--steps=2"}};
  for (const auto& [name, value] : rows) task += name + " " + value + "\n";
  const std::string text = folder_.files().write("task", task + "go\n"), input = folder_ / "input";
  ASSERT_EQ(mkfifo(input.c_str(), 0666), 0);
  ASSERT_EQ(chmod(input.c_str(), 0666), 0);
  // The shell itself takes more of them.
  const std::string shell = "exec 3<>" + input + "; cat " + text + " >&3; exec /usr/bin/prlimit --nofile=12:256 " +
                            kHycRun + " --agent <&3 3>&-";
  const CommandResult result = run("--nofile=256:256", {"/bin/sh", "-c", shell});
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST_F(LimitedRun, WithoutProcessesForItsRanksSaysSo) {
  const CommandResult result = run("--nproc=4:4", folder_.command({"--steps", "2"}));
  EXPECT_EQ(result.status, 69) << result.errors;
  EXPECT_CONTAINS(result.errors, "cannot start a rank: Resource temporarily unavailable");
  EXPECT_CONTAINS(result.errors, "the limit of 4 processes and threads of this user (ulimit -u)");
}

TEST_F(LimitedRun, WithoutThreadsForExchangesOrForComputingSaysSo) {
  for (const char* option : {"--communication-thread=on", "--threads=8"}) {
    std::vector<std::string> command{kHycRun, folder_.path(), "--data", folder_ / "text", "--steps", "2", option};
    const CommandResult result = run("--nproc=12:12", command);
    EXPECT_EQ(result.status, 69) << option << ": " << result.errors;
    // Threads of the first ranks may take the place of the last one's process.
    EXPECT_CONTAINS(result.errors, "error: cannot start a ");
    EXPECT_CONTAINS(result.errors, "the limit of 12 processes and threads of this user (ulimit -u)");
    EXPECT_EQ(result.errors.find("terminate"), std::string::npos) << result.errors;
  }
}

}  // namespace
