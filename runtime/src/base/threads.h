// How many threads a rank computes with, and on which cores.
#ifndef HYCRT_SRC_BASE_THREADS_H_
#define HYCRT_SRC_BASE_THREADS_H_

#include <functional>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

struct ThreadPlan {
  int threads;  // per rank
  int localRank;
  int ranksHere;
  bool pins = true;  // false: the scheduler is left all cores, for threads that are not this library's
};

// Sets OpenMP's team size; where every thread of every rank can have a core of its own, also pins this rank to its
// share of the cores. Call before the first parallel region: later threads inherit the mask.
void applyThreadPlan(const ThreadPlan& plan);

// Starts the threads that the calling thread computes with, which then stay. kUnavailable, with the limit that was hit,
// where they cannot be had. Should others take them in the instant between looking and starting, OpenMP ends the
// process: `tell` hears why, and the process ends with the code of the same error.
Status startTeam(int threads, const std::function<void(const Status&)>& tell);

// The second half of it.
void startProbedTeam(int threads, const std::function<void(const Status&)>& tell);

// Gives the calling thread, which does not compute, all cores that the process had before applyThreadPlan, and a team
// of one.
void leaveThreadPlan();

// The cores that the process had before applyThreadPlan.
int availableCores();

// How threads of processes wait for their next task, as variables of libgomp for those that are started with them: none
// where the user has said it. `threadsHere` are those of all ranks of this host.
std::vector<std::string> waitVariables(int threadsHere);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_THREADS_H_
