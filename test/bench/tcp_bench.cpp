// tcp_bench [MiB [SOCKETS]]: what passes between two ranks by TCP over the loopback, each as if it were a host of its
// own, with TLS and in the clear, over so many connections (1): the rate of a long transfer one way, and half of what 8
// bytes take there and back. To be put beside iperf3 -c 127.0.0.1 in the same minute.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/clock.h"
#include "forked_ranks.h"
#include "hycrt/collectives.h"
#include "test_mesh.h"

namespace {

using namespace hycrt;

constexpr int kRounds = 40, kShortRounds = 2000;
constexpr int64_t kShortBytes = 8;

struct Bench {
  Bench(int rank, int64_t bytes) : arenas{{"communication", 4 * bytes, Sharing::kShared}} {
    const Direction out = rank == 0 ? Direction::kSend : Direction::kReceive;
    const Direction in = rank == 0 ? Direction::kReceive : Direction::kSend;
    transfers = {{1, "long", out, 1 - rank, {0, 0}, 0, bytes},
                 {2, "there", out, 1 - rank, {0, 2 * bytes}, 0, kShortBytes},
                 {3, "back", in, 1 - rank, {0, 3 * bytes}, 0, kShortBytes}};
    program.name = "bench";
    program.mesh = meshOf(1, 2, 1);
    program.stage = rank;
    program.arenas = tableOf(arenas);
    program.transfers = tableOf(transfers);
  }
  std::vector<ArenaDesc> arenas;
  std::vector<TransferDesc> transfers;
  Program program{};
};

Status measure(const Environment &environment, int64_t bytes, int sockets, bool plaintext) {
  Bench bench(environment.rank, bytes);
  HostSide::Options options;
  options.network.ranksTogether = 1;
  options.network.plaintext = plaintext;
  options.network.sockets = sockets;
  Result<std::unique_ptr<HostSide>> side = HostSide::connect(bench.program, environment, options);
  if (!side.ok()) return side.status();
  HostExchanger &exchanger = *(*side)->exchanger;
  const TransferUse once[] = {{0, 0, 0}}, there[] = {{1, 0, 0}}, back[] = {{2, 0, 0}};
  std::vector<double> rates, halves;
  for (int round = 0; round < kRounds; ++round) {
    HYCRT_RETURN_IF_ERROR(exchanger.barrier());
    const int64_t begin = monotonicNs();
    HYCRT_RETURN_IF_ERROR(exchanger.exchange(once, 1));
    rates.push_back(static_cast<double>(bytes) / static_cast<double>(monotonicNs() - begin));
  }
  for (int round = 0; round < kShortRounds; ++round) {
    const int64_t begin = monotonicNs();
    HYCRT_RETURN_IF_ERROR(exchanger.exchange(there, 1));
    HYCRT_RETURN_IF_ERROR(exchanger.exchange(back, 1));
    halves.push_back(static_cast<double>(monotonicNs() - begin) / 2e3);
  }
  HYCRT_RETURN_IF_ERROR(exchanger.barrier());
  std::sort(rates.begin(), rates.end());
  std::sort(halves.begin(), halves.end());
  if (environment.rank == 0) {
    std::printf("%-6s  %9.2f  %10.1f\n", plaintext ? "clear" : "TLS", rates[rates.size() / 2],
                halves[halves.size() / 2]);
    std::fflush(stdout);
  }
  return exchanger.leave(true);
}

}  // namespace

int main(int argc, char **argv) {
  const int64_t bytes = (argc > 1 ? std::atoll(argv[1]) : 16) << 20;
  const int sockets = argc > 2 ? std::atoi(argv[2]) : 1;
  if (bytes <= 0 || sockets < 1) {
    std::fprintf(stderr, "tcp_bench [MiB [SOCKETS]]\n");
    return 64;
  }
  std::printf("        long GB/s  8 bytes us\n");
  std::fflush(stdout);
  for (bool plaintext : {true, false}) {
    for (const RankOutcome &outcome :
         runRanks(2, [&](const Environment &environment) { return measure(environment, bytes, sockets, plaintext); })) {
      if (!outcome.message.empty()) std::fprintf(stderr, "%s\n", outcome.message.c_str());
    }
  }
  return 0;
}
