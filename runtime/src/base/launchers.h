// Launchers: by which variables each kind of them tells a process its place in the job.
#ifndef HYCRT_SRC_BASE_LAUNCHERS_H_
#define HYCRT_SRC_BASE_LAUNCHERS_H_

#include <string>

#include "hycrt/status.h"

namespace hycrt {

inline constexpr const char* kPmiVariable = "PMI_FD";  // the descriptor by which MPICH's launcher speaks PMI

// Empty where it is not set.
std::string variable(const char* name);
// The whole text as a decimal number in [low, high].
Result<int> numberIn(const char* name, int low, int high);

// Who tells where rank 0 is, where MASTER_ADDR and MASTER_PORT alone do not (comm/launch/hub_address.h).
enum class HubIsTold { kByVariables, kByPmi, kByPmix, kByTorchStore };

struct Launcher {
  const char* name;
  const char* rank;
  const char* worldSize;
  const char* localRank;
  const char* ranksHere;  // null: it is told otherwise
  HubIsTold board = HubIsTold::kByVariables;
  const char* boardVariable = nullptr;  // set where it is there
};

struct Launch {
  const Launcher* launcher = nullptr;
  int rank = 0, worldSize = 0;  // worldSize 0: no launcher says anything
  int localRank = 0, ranksHere = 0;
};

bool isSlurm(const Launch& launch);

// RANK and WORLD_SIZE (torchrun, DeepSpeed, hyc-run, or by hand) come before Open MPI's, MPICH's and Slurm's variables.
// A process that can be alone is not taken for one of a job because it runs inside another.
Result<Launch> readLaunch(bool mayBeAlone);

// Of a job that says neither MASTER_ADDR nor MASTER_PORT.
HubIsTold boardOf(const Launch& launch);

struct HostPort {
  std::string host;
  int port = 0;
};

// Where ranks of several hosts meet: MASTER_ADDR and MASTER_PORT, a port beside it where torchrun's agent has that one;
// under Slurm by default the first host of the step, and a port that comes of the job's number.
Result<HostPort> masterOf(const Launch& launch);

// "node[07-09,12],x" has "node07" first; empty where the text is no such list.
std::string firstOfNodeList(const std::string& list);

// Of "4(x2),3": how many tasks node number `node` has; 0 where the text does not tell.
int tasksOfNode(const std::string& counts, int node);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_LAUNCHERS_H_
