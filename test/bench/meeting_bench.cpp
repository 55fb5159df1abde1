// meeting_bench [RANKS [RANKS_A_HOST]]: how long ranks of several hosts take to meet, from the start of the first until
// the last can exchange: each tells rank 0 who it is and hears of all others, proves that it has the token, and has an
// encrypted connection to every rank of another host. All stand on this machine, and talk by the loopback.
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/clock.h"
#include "forked_ranks.h"
#include "test_mesh.h"

namespace {

using namespace hycrt;

constexpr int64_t kBytes = 4096;

}  // namespace

int main(int argc, char **argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 64, together = argc > 2 ? std::atoi(argv[2]) : 8;
  if (ranks < 2 || together < 1 || ranks % together != 0) {
    std::fprintf(stderr, "meeting_bench [RANKS [RANKS_A_HOST]]: found %d and %d\n", ranks, together);
    return 64;
  }
  void *const page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 74;
  auto *const met = new (page) std::atomic<int64_t>(0);  // when the last rank had
  for (const bool plaintext : {true, false}) {
    const int64_t begin = monotonicMs();
    double whole = 0;
    const auto meet = [&](const Environment &environment) -> Status {
      const std::vector<ArenaDesc> arenas{{"communication", kBytes, Sharing::kShared}};
      Program program{};
      program.name = "bench";
      program.mesh = meshOf(1, 1, ranks);
      program.arenas = tableOf(arenas);
      HostSide::Options options;
      options.network.ranksTogether = together;
      options.network.plaintext = plaintext;
      Result<std::unique_ptr<HostSide>> side = HostSide::connect(program, environment, options);
      if (!side.ok()) return side.status();
      HYCRT_RETURN_IF_ERROR((*side)->exchanger->barrier());
      const int64_t now = monotonicMs();
      for (int64_t last = met->load(); last < now && !met->compare_exchange_weak(last, now);) continue;
      return (*side)->exchanger->leave(true);
    };
    for (const RankOutcome &outcome : runRanks(ranks, meet)) {
      if (!outcome.message.empty()) std::fprintf(stderr, "%s\n", outcome.message.c_str());
      if (outcome.seconds > whole) whole = outcome.seconds;
    }
    std::printf("%d ranks, %d a host, %-12s %6.2f s, and have left after %6.2f s\n", ranks, together,
                plaintext ? "in the clear" : "TLS", static_cast<double>(*met - begin) / 1e3, whole);
    std::fflush(stdout);
  }
  return 0;
}
