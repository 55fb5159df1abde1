// sum_hosts_bench [MiB]: the time of an all_reduce of so many MiB of f32 over hosts × ranks, beside its bound in
// the same run. Hosts are taken for such on one machine, and talk by TCP over the loopback.
//
// The bound: the running sum goes from each host to the next, and the result from the last one round to the others, so
// that a host sends and receives the vector twice, of two hosts once each way. Its rate is what the same ranks reach
// when each sends its share to the one of the next host, and gets that of the one before, all at once. A ratio of 1
// means that nothing but that took time. How many cores all ranks together kept busy meanwhile stands beside it: where
// these are all that there are, what else a sum does, adding and copying, comes on top.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "base/clock.h"
#include "forked_ranks.h"
#include "hycrt/collectives.h"
#include "test_mesh.h"

namespace {

using namespace hycrt;

constexpr int kRounds = 25;

struct Layout {
  int hosts, together;
};

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

int64_t processorNs() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1000000000 + time.tv_nsec;
}

// `busyNs`: of all ranks, in sums.
Status measure(const Environment &environment, const Layout &layout, int64_t bytes, bool plaintext,
               std::atomic<int64_t> &busyNs) {
  Bench bench(layout, environment.rank, bytes);
  HostSide::Options options;
  options.network.ranksTogether = layout.together;
  options.network.plaintext = plaintext;
  Result<std::unique_ptr<HostSide>> side = HostSide::connect(bench.program, environment, options);
  if (!side.ok()) return side.status();
  HostExchanger &exchanger = *(*side)->exchanger;
  Context ctx(bench.program, coordinatesOf(bench.program.mesh, environment.rank), (*side)->memory->arenas(), &exchanger,
              nullptr);
  const TransferUse ring[] = {{0, 0, 0}, {1, 0, 0}};
  std::vector<double> rings, sums;
  int64_t wholeNs = 0;
  // In turns, so that whatever else runs on the machine meets both.
  for (int round = 0; round < kRounds; ++round) {
    HYCRT_RETURN_IF_ERROR(exchanger.barrier());
    int64_t begin = monotonicNs();
    HYCRT_RETURN_IF_ERROR(exchanger.exchange(ring, 2));
    HYCRT_RETURN_IF_ERROR(exchanger.barrier());
    rings.push_back(static_cast<double>(monotonicNs() - begin) / 1e6);
    begin = monotonicNs();
    const int64_t busyBegin = processorNs();
    wait(ctx, allReduceStart(ctx, 0, {0, 0}, bytes / 4, DType::kF32));
    HYCRT_RETURN_IF_ERROR(ctx.status());
    HYCRT_RETURN_IF_ERROR(exchanger.barrier());
    sums.push_back(static_cast<double>(monotonicNs() - begin) / 1e6);
    busyNs += processorNs() - busyBegin;
    wholeNs += monotonicNs() - begin;
  }
  HYCRT_RETURN_IF_ERROR(exchanger.barrier());
  if (environment.rank == 0) {
    const double bound = medianOf(rings) * (layout.hosts == 2 ? 1 : 2), time = medianOf(sums);
    std::printf("%3d x %d  %-5s  %9.2f  %8.2f  %8.2f  %5.2f  %5.2f\n", layout.hosts, layout.together,
                plaintext ? "clear" : "TLS", static_cast<double>(bytes) / medianOf(rings) / 1e6, time, bound,
                time / bound, static_cast<double>(busyNs) / static_cast<double>(wholeNs));
    std::fflush(stdout);
  }
  return exchanger.leave(true);
}

}  // namespace

int main(int argc, char **argv) {
  const int64_t bytes = (argc > 1 ? std::atoll(argv[1]) : 16) << 20;
  if (bytes <= 0) {
    std::fprintf(stderr, "sum_hosts_bench [MiB]\n");
    return 64;
  }
  void *const page = mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 74;
  auto *const busyNs = new (page) std::atomic<int64_t>(0);
  std::printf("hosts x ranks     ring GB/s   time ms  bound ms  ratio  cores\n");
  std::fflush(stdout);
  for (bool plaintext : {true, false}) {
    for (const Layout &layout : {Layout{2, 1}, Layout{2, 2}, Layout{4, 1}, Layout{4, 2}}) {
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
