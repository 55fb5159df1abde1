// Binding a rank's threads to its share of the cores.
#include "base/threads.h"

#include <omp.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "base/limits.h"
#include "hycrt/options.h"

namespace hycrt {
namespace {

// The cores of `all` from position first on, `count` of them.
cpu_set_t share(const cpu_set_t& all, int first, int count) {
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  int position = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    if (position >= first && position < first + count) CPU_SET(core, &chosen);
    ++position;
  }
  return chosen;
}

// The process's cores when they were first asked for, which is before it is pinned.
const cpu_set_t& allCores() {
  static const cpu_set_t all = [] {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) CPU_SET(0, &cores);
    return cores;
  }();
  return all;
}

// Of the team that is being started; null: none is.
std::atomic<const std::function<void(const Status&)>*> onFailedTeam{nullptr};

// libgomp says that a thread cannot be had by exit(1), which runs this.
void endWhereTeamFailed() {
  const auto* const tell = onFailedTeam.exchange(nullptr);
  if (!tell) return;
  const Status status = startError("cannot start a thread for computing", EAGAIN);
  (*tell)(status);
  std::_Exit(status.exitCode());
}

}  // namespace

Status startTeam(int threads, const std::function<void(const Status&)>& tell) {
  HYCRT_RETURN_IF_ERROR(checkThreadsCanStart(threads - 1));
  startProbedTeam(threads, tell);
  return {};
}

void startProbedTeam(int threads, const std::function<void(const Status&)>& tell) {
  static const bool isRegistered = std::atexit(endWhereTeamFailed) == 0;
  (void)isRegistered;
  std::atomic<int> present{0};  // so that the region is one
  onFailedTeam = &tell;
#pragma omp parallel num_threads(threads)
  ++present;
  onFailedTeam = nullptr;
}

int availableCores() { return CPU_COUNT(&allCores()); }

void leaveThreadPlan() {
  omp_set_num_threads(1);
  sched_setaffinity(0, sizeof(cpu_set_t), &allCores());
}

void applyThreadPlan(const ThreadPlan& plan) {
  omp_set_dynamic(0);
  omp_set_num_threads(plan.threads);
  // One rank alone is left to the scheduler: other jobs of the machine may need to move it.
  if (!plan.pins || plan.threads * plan.ranksHere > availableCores() || plan.ranksHere == 1) return;
  const cpu_set_t own = share(allCores(), plan.localRank * plan.threads, plan.threads);
  sched_setaffinity(0, sizeof own, &own);
}

// Where there are more threads than cores, those that spin would take the cores from ranks that have work. Otherwise
// spinning spares waking them, for as long as the gaps between kernels: by itself libgomp spins for milliseconds, in
// which another process on one of the cores holds up all, kernel after kernel (docs/performance.md).
std::vector<std::string> waitVariables(int threadsHere) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return {};
  return {threadsHere > defaultThreads(1) ? "OMP_WAIT_POLICY=passive" : "GOMP_SPINCOUNT=3000"};
}

}  // namespace hycrt
