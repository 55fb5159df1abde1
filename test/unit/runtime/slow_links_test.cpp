// A link slower than a piece of a long message is long: who sends by it lives as long as bytes of the piece come,
// though no whole piece, and nothing else of the peer, has come within the time that a rank is waited for.
//
// Links are connections over the loopback, which the kernel is told to pace.
#include <dirent.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "forked_ranks.h"
#include "hycrt/collectives.h"
#include "test_mesh.h"

namespace hycrt {
namespace {

constexpr int64_t kPatienceMs = 1000;
constexpr unsigned kBytesPerSecond = 100000;
constexpr int64_t kBytes =
    384 << 10;  // a message is one piece, a sum several, each of which takes longer than is waited

// All TCP connections of this process from now on.
void slowDown() {
  DIR* const folder = opendir("/proc/self/fd");
  ASSERT_NE(folder, nullptr);
  int connections = 0;
  while (const dirent* const entry = readdir(folder)) {
    const int descriptor = std::atoi(entry->d_name);
    int domain = 0, type = 0;
    socklen_t size = sizeof(int);
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_INET) continue;
    if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) continue;
    const int room = 64 << 10;  // what the kernel holds comes even from a process that is stopped
    EXPECT_EQ(setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    EXPECT_EQ(setsockopt(descriptor, SOL_SOCKET, SO_MAX_PACING_RATE, &kBytesPerSecond, sizeof kBytesPerSecond), 0);
    ++connections;
  }
  closedir(folder);
  EXPECT_GT(connections, 0);
}

// Two stages, a rank each: rank 0 sends to rank 1; both sum.
struct SlowProgram {
  explicit SlowProgram(int rank) {
    transfers = {{1, "activations", rank == 0 ? Direction::kSend : Direction::kReceive, 1 - rank, {0, 0}, 0, kBytes}};
    program.name = "slow";
    program.mesh = meshOf(1, 2, 1);
    program.stage = rank;
    program.arenas = tableOf(arenas);
    program.groups = tableOf(groups);
    program.collectives = tableOf(collectives);
    program.transfers = tableOf(transfers);
  }
  std::vector<ArenaDesc> arenas{{"communication", kBytes, Sharing::kShared}};
  std::vector<GroupDesc> groups{{"all", kPp, {}}};
  std::vector<CollectiveDesc> collectives{{1, "gradients", CollectiveKind::kAllReduce, 0}};
  std::vector<TransferDesc> transfers;
  Program program{};
};

enum class What { kMessage, kSum };

// Rank 0 does `before` before the slow exchange.
std::vector<RankOutcome> exchangeSlowly(What what, bool plaintext, const std::function<void()>& before = nullptr) {
  return runRanks(2, [&](const Environment& environment) -> Status {
    SlowProgram slow(environment.rank);
    HostSide::Options options;
    options.patienceMs = options.network.timeoutMs = kPatienceMs;
    options.network.ranksTogether = 1;
    options.network.plaintext = plaintext;
    Result<std::unique_ptr<HostSide>> side = HostSide::connect(slow.program, environment, options);
    if (!side.ok()) return side.status();
    HostExchanger& exchanger = *(*side)->exchanger;
    Context ctx(slow.program, coordinatesOf(slow.program.mesh, environment.rank), (*side)->memory->arenas(), &exchanger,
                nullptr);
    const auto exchange = [&]() -> Status {
      if (what == What::kMessage) {
        const TransferUse use{0, 0, 0};
        HYCRT_RETURN_IF_ERROR(exchanger.exchange(&use, 1));
      } else {
        wait(ctx, allReduceStart(ctx, 0, {0, 0}, kBytes / 4, DType::kF32));
        HYCRT_RETURN_IF_ERROR(ctx.status());
      }
      return exchanger.barrier();
    };
    HYCRT_RETURN_IF_ERROR(exchange());  // the first packets of a connection are not paced
    slowDown();
    const int64_t begin = monotonicMs();
    if (before && environment.rank == 0) before();
    HYCRT_RETURN_IF_ERROR(exchange());
    if (monotonicMs() - begin < 2 * kPatienceMs) return internalError("the link was not slow");
    return exchanger.leave(true);
  });
}

class SlowLink : public testing::TestWithParam<bool> {};

TEST_P(SlowLink, OfAMessageIsWaitedForWhileItsBytesCome) {
  for (const RankOutcome& outcome : exchangeSlowly(What::kMessage, GetParam())) {
    EXPECT_EQ(outcome.code, StatusCode::kOk) << outcome.message;
  }
}

TEST_P(SlowLink, OfASumIsWaitedForWhileItsBytesCome) {
  for (const RankOutcome& outcome : exchangeSlowly(What::kSum, GetParam())) {
    EXPECT_EQ(outcome.code, StatusCode::kOk) << outcome.message;
  }
}

// What the kernels hold of its message comes yet, and then nothing: named after the time that it is waited for.
TEST_P(SlowLink, OfARankThatStopsInTheMiddleIsNoExcuse) {
  const std::vector<RankOutcome> outcomes = exchangeSlowly(What::kMessage, GetParam(), [] {
    const pid_t self = getpid();
    if (fork() != 0) return;
    usleep(1500000);  // more than is waited: by then it lives by its bytes alone
    kill(self, SIGSTOP);
    usleep(6000000);
    kill(self, SIGCONT);
    _exit(0);
  });
  EXPECT_EQ(outcomes[1].code, StatusCode::kUnavailable) << outcomes[1].message;
  EXPECT_NE(outcomes[1].message.find("for rank 0 (pp 0, dp 0, tp 0"), std::string::npos) << outcomes[1].message;
  EXPECT_NE(outcomes[1].message.find("has given no sign of life for "), std::string::npos) << outcomes[1].message;
  EXPECT_GT(outcomes[1].seconds, 2.4) << "not before it was stopped";
  EXPECT_LT(outcomes[1].seconds, 5.5) << "1.5 s, what was under way, the time that it is waited for, and a second";
}

std::string nameOf(const testing::TestParamInfo<bool>& info) { return info.param ? "InTheClear" : "Encrypted"; }

INSTANTIATE_TEST_SUITE_P(By, SlowLink, testing::Bool(), nameOf);

}  // namespace
}  // namespace hycrt
