// sum_hosts_bench [MiB [HOSTS RANKS]]: the time of an all_reduce of so many MiB of f32 over hosts × ranks, beside its
// bounds in the same run. Hosts are taken for such on one machine, and talk by TCP over the loopback.
//
// Carrying: the running sum goes from each host to the next, and the result from the last one round to the others, so
// that a host sends and receives the vector twice, of two hosts once each way. Its rate is what the same ranks reach
// when each sends its share to the one of the next host, and gets that of the one before, all at once.
//
// The local part: what a hierarchical sum does inside of each host, adding the terms of its ranks and copying results
// to each. It is that of the very sums, of all ranks at once, with nothing sent (silent_transport.h).
//
// The bound of both: their maximum where each rank has a core for either, 2 × hosts × ranks of them, and else their
// sum, since over the loopback carrying is work of the ranks' cores, too (a meeting of all ranks, which both hold,
// counts once). How many cores all ranks together kept busy in a sum stands beside it.
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "forked_ranks.h"
#include "hycrt/collectives.h"
#include "silent_transport.h"
#include "test_mesh.h"

namespace {

using namespace hycrt;

constexpr int kRounds = 25;

struct Layout {
  int hosts, together;
};

// Of a forked rank.
Layout layoutHere;
Silent *silentHere = nullptr;

std::unique_ptr<Transport> wrapSilent(std::unique_ptr<Transport> inner, int rank) {
  auto silent = std::make_unique<Silent>(std::move(inner), rank, layoutHere.hosts, layoutHere.together);
  silentHere = silent.get();
  return silent;
}

// Each rank is a stage, since messages pass between stages.
struct Bench {
  Bench(const Layout &layout, int rank, int64_t bytes) : arenas{{"communication", 2 * bytes, Sharing::kShared}} {
    const int ranks = layout.hosts * layout.together;
    const int64_t share = bytes / layout.together;
    transfers = {{1, "ring", Direction::kSend, (rank + layout.together) % ranks, {0, 0}, 0, share},
                 {1, "ring", Direction::kReceive, (rank - layout.together + ranks) % ranks, {0, bytes}, 0, share}};
    program.name = "bench";
    program.mesh = meshOf(1, ranks, 1);
    program.stage = rank;
    program.arenas = tableOf(arenas);
    program.groups = tableOf(groups);
    program.collectives = tableOf(collectives);
    program.transfers = tableOf(transfers);
  }
  std::vector<ArenaDesc> arenas;
  std::vector<GroupDesc> groups{{"all", kPp, {}}};
  std::vector<CollectiveDesc> collectives{{1, "bench", CollectiveKind::kAllReduce, 0}};
  std::vector<TransferDesc> transfers;
  Program program{};
};

double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int usableCores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

int64_t processorNs() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1000000000 + time.tv_nsec;
}

struct Times {
  std::vector<double> meetings, rings, locals, sums;  // ms, by round
  int64_t wholeNs = 0;                                // of the sums
};

void report(const Layout &layout, int64_t bytes, bool plaintext, const Times &times, int64_t busyNs) {
  const double carrying = medianOf(times.rings) * (layout.hosts == 2 ? 1 : 2), local = medianOf(times.locals);
  const bool besideOneAnother = usableCores() >= 2 * layout.hosts * layout.together;
  const double both = besideOneAnother ? std::max(carrying, local) : carrying + local - medianOf(times.meetings);
  const double time = medianOf(times.sums);
  std::printf("%3d x %d  %-5s  %9.2f  %8.2f  %8.2f  %8.2f  %5.2f  %5.2f  %5.2f\n", layout.hosts, layout.together,
              plaintext ? "clear" : "TLS", static_cast<double>(bytes) / medianOf(times.rings) / 1e6, time, carrying,
              local, time / carrying, time / both, static_cast<double>(busyNs) / static_cast<double>(times.wholeNs));
  std::fflush(stdout);
}

// `busyNs`: of all ranks, in sums.
Status measure(const Environment &environment, const Layout &layout, int64_t bytes, bool plaintext,
               std::atomic<int64_t> &busyNs) {
  Bench bench(layout, environment.rank, bytes);
  HostSide::Options options;
  layoutHere = layout;
  options.wrap = wrapSilent;
  options.network.ranksTogether = layout.together;
  options.network.plaintext = plaintext;
  Result<std::unique_ptr<HostSide>> side = HostSide::connect(bench.program, environment, options);
  if (!side.ok()) return side.status();
  HostExchanger &exchanger = *(*side)->exchanger;
  const int channel = (*side)->plans.ofGroup[0];
  Context ctx(bench.program, coordinatesOf(bench.program.mesh, environment.rank), (*side)->memory->arenas(), &exchanger,
              nullptr);
  const auto timeOf = [&](std::vector<double> &times, const auto &work) -> Status {
    HYCRT_RETURN_IF_ERROR(exchanger.barrier());
    const int64_t begin = monotonicNs();
    HYCRT_RETURN_IF_ERROR(work());
    HYCRT_RETURN_IF_ERROR(exchanger.barrier());
    times.push_back(static_cast<double>(monotonicNs() - begin) / 1e6);
    return {};
  };
  const auto ring = [&] {
    const TransferUse uses[] = {{0, 0, 0}, {1, 0, 0}};
    return exchanger.exchange(uses, 2);
  };
  const auto sum = [&](bool isSilent) -> Status {
    silentHere->beginSum(channel, isSilent);
    wait(ctx, allReduceStart(ctx, 0, {0, 0}, bytes / 4, DType::kF32));
    return ctx.status();
  };
  Times times;
  // In turns, so that whatever else runs on the machine meets all.
  for (int round = 0; round < kRounds; ++round) {
    HYCRT_RETURN_IF_ERROR(timeOf(times.meetings, [] { return Status(); }));
    HYCRT_RETURN_IF_ERROR(timeOf(times.rings, ring));
    const int64_t busyBegin = processorNs();
    HYCRT_RETURN_IF_ERROR(timeOf(times.sums, [&] { return sum(false); }));
    busyNs += processorNs() - busyBegin;
    times.wholeNs += static_cast<int64_t>(times.sums.back() * 1e6);
    HYCRT_RETURN_IF_ERROR(timeOf(times.locals, [&] { return sum(true); }));
  }
  HYCRT_RETURN_IF_ERROR(exchanger.barrier());
  if (environment.rank == 0) report(layout, bytes, plaintext, times, busyNs);
  return exchanger.leave(true);
}

}  // namespace

int main(int argc, char **argv) {
  const int64_t bytes = (argc > 1 ? std::atoll(argv[1]) : 16) << 20;
  std::vector<Layout> layouts{{2, 1}, {2, 2}, {4, 1}, {4, 2}};
  if (argc == 4) layouts = {{std::atoi(argv[2]), std::atoi(argv[3])}};
  if (bytes <= 0 || argc == 3 || argc > 4 || layouts[0].hosts < 2 || layouts[0].together < 1) {
    std::fprintf(stderr, "sum_hosts_bench [MiB [HOSTS RANKS]], of at least two hosts\n");
    return 64;
  }
  void *const page = mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 74;
  auto *const busyNs = new (page) std::atomic<int64_t>(0);
  std::printf("                                 time  carrying     local     time over\n");
  std::printf("hosts x ranks     ring GB/s        ms        ms        ms  carry   both  cores of %d\n", usableCores());
  std::fflush(stdout);
  for (bool plaintext : {true, false}) {
    for (const Layout &layout : layouts) {
      *busyNs = 0;
      for (const RankOutcome &outcome : runRanks(layout.hosts * layout.together, [&](const Environment &environment) {
             return measure(environment, layout, bytes, plaintext, *busyNs);
           })) {
        if (!outcome.message.empty()) std::fprintf(stderr, "%s\n", outcome.message.c_str());
      }
    }
  }
  return 0;
}
