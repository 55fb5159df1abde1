// all_reduce_bench [MiB per rank]: the time of an all_reduce over 2, 3 and 4 ranks beside its bound 2pn/B, where B is
// the memory bandwidth that the same ranks reach together in a triad (a = b + s·c, three arrays, no reuse) in the same
// run. The share is bound / time: 1 is as fast as memory allows.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "forked_ranks.h"
#include "hycrt/collectives.h"
#include "test_mesh.h"

namespace {

using namespace hycrt;

constexpr int kRounds = 15;

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double medianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Bench {
  explicit Bench(int ranks, int64_t bytes) : arenas{{"communication", bytes, Sharing::kShared}} {
    program.name = "bench";
    program.mesh = meshOf(1, 1, ranks);
    program.arenas = tableOf(arenas);
    program.groups = tableOf(groups);
    program.collectives = tableOf(collectives);
  }
  std::vector<ArenaDesc> arenas;
  std::vector<GroupDesc> groups{{"all", kDp, {}}};
  std::vector<CollectiveDesc> collectives{{1, "bench", CollectiveKind::kAllReduce, 0}};
  Program program{};
};

// Bytes per second of this rank while all others do the same.
double triadRate(HostExchanger &exchanger, int64_t bytes) {
  const size_t count = static_cast<size_t>(bytes) / sizeof(float);
  std::vector<float> a(count, 0.0f), b(count, 1.0f), c(count, 2.0f);
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    if (!exchanger.barrier().ok()) return 0;
    const double begin = now();
    const float scale = static_cast<float>(round);
    for (size_t i = 0; i < count; ++i) a[i] = b[i] + scale * c[i];
    seconds.push_back(now() - begin);
    std::swap(a, b);
  }
  return 3 * static_cast<double>(bytes) / medianOf(seconds);
}

double allReduceSeconds(Context &ctx, int64_t bytes) {
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    if (!ctx.exchanger().barrier().ok()) return 0;
    const double begin = now();
    wait(ctx, allReduceStart(ctx, 0, {0, 0}, bytes / 4, DType::kF32));
    seconds.push_back(now() - begin);
  }
  return medianOf(seconds);
}

Status measure(const Environment &environment, int ranks, int64_t bytes) {
  Bench bench(ranks, bytes);
  Result<std::unique_ptr<ConnectedRank>> rank = ConnectedRank::connect(bench.program, environment);
  if (!rank.ok()) return rank.status();
  const double rate = triadRate((*rank)->exchanger(), bytes);
  const double seconds = allReduceSeconds((*rank)->context(), bytes);
  if (environment.rank == 0) {
    const double bound = 2.0 * ranks * static_cast<double>(bytes) / (rate * ranks);
    std::printf("%5d  %8.1f  %10.2f  %9.2f  %8.2f  %5.2f\n", ranks, rate * ranks / 1e9, seconds * 1e3, bound * 1e3,
                static_cast<double>(bytes) / seconds / 1e9, bound / seconds);
    std::fflush(stdout);
  }
  return (*rank)->context().status();
}

}  // namespace

int main(int argc, char **argv) {
  const int64_t bytes = (argc > 1 ? std::atoll(argv[1]) : 64) << 20;
  if (bytes <= 0) {
    std::fprintf(stderr, "all_reduce_bench [MiB per rank]\n");
    return 64;
  }
  std::printf("ranks  triad GB/s  time ms  bound ms  payload GB/s  share\n");
  std::fflush(stdout);
  for (int ranks : {2, 3, 4}) {
    for (const RankOutcome &outcome :
         runRanks(ranks, [&](const Environment &environment) { return measure(environment, ranks, bytes); })) {
      if (!outcome.message.empty()) std::fprintf(stderr, "%s\n", outcome.message.c_str());
    }
  }
  return 0;
}
