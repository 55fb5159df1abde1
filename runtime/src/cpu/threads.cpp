#include "cpu/threads.h"

#include <omp.h>
#include <sched.h>

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

}  // namespace

void applyThreadPlan(const ThreadPlan& plan) {
  omp_set_dynamic(0);
  omp_set_num_threads(plan.threads);
  cpu_set_t all;
  CPU_ZERO(&all);
  // One rank alone is left to the scheduler: other jobs of the machine may need to move it.
  if (plan.localRanks == 1 || sched_getaffinity(0, sizeof all, &all) != 0) return;
  if (plan.threads * plan.localRanks > CPU_COUNT(&all)) return;
  const cpu_set_t own = share(all, plan.localRank * plan.threads, plan.threads);
  sched_setaffinity(0, sizeof own, &own);
}

}  // namespace hycrt
