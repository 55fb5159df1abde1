// Reading launchers' variables; a contradiction names the variable, its value and what was expected.
#include "base/launchers.h"

#include <cerrno>
#include <cstdlib>

namespace hycrt {
namespace {

constexpr int kMostRanks = 1 << 20;

constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", HubIsTold::kByPmix, "PMIX_NAMESPACE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", HubIsTold::kByPmi, kPmiVariable},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr},
};

// How many ranks share this one's host, by whichever variable says so; all, where none does.
Result<int> readRanksHere(const Launch& launch) {
  const char* name = launch.launcher->ranksHere;
  if (isSlurm(launch)) {
    const std::string counts = variable("SLURM_STEP_TASKS_PER_NODE");
    if (counts.empty()) return launch.worldSize;
    Result<int> node = numberIn("SLURM_NODEID", 0, kMostRanks);
    if (!node.ok()) return node.status();
    const int tasks = tasksOfNode(counts, *node);
    if (tasks > 0 && tasks <= launch.worldSize) return tasks;
    return usageError("environment variable SLURM_STEP_TASKS_PER_NODE is '" + counts + "', expected how many of the " +
                      std::to_string(launch.worldSize) + " tasks node " + std::to_string(*node) + " has, as in 4(x2)");
  }
  // DeepSpeed's launcher says it by another name.
  if (variable(name).empty() && !variable("CROSS_SIZE").empty()) name = "LOCAL_SIZE";
  if (variable(name).empty()) return launch.worldSize;
  return numberIn(name, 1, launch.worldSize);
}

}  // namespace

bool isSlurm(const Launch& launch) { return !launch.launcher->ranksHere; }

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Result<int> numberIn(const char* name, int low, int high) {
  const std::string text = variable(name);
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < low || value > high) {
    return usageError(std::string("environment variable ") + name + " is '" + text + "', expected a number from " +
                      std::to_string(low) + " to " + std::to_string(high));
  }
  return static_cast<int>(value);
}

Result<Launch> readLaunch(bool mayBeAlone) {
  Launch launch;
  for (const Launcher& launcher : kLaunchers) {
    if (variable(launcher.rank).empty() && variable(launcher.worldSize).empty()) continue;
    if (&launcher != &kLaunchers[0] && mayBeAlone) continue;
    // Slurm speaks MPICH's PMI, too, and then says of hosts what it always does.
    if (launcher.board == HubIsTold::kByPmi && variable(launcher.localRank).empty() &&
        !variable("SLURM_PROCID").empty()) {
      continue;
    }
    launch.launcher = &launcher;
    break;
  }
  if (!launch.launcher) return launch;
  Result<int> worldSize = numberIn(launch.launcher->worldSize, 1, kMostRanks);
  if (!worldSize.ok()) return worldSize.status();
  launch.worldSize = *worldSize;
  Result<int> rank = numberIn(launch.launcher->rank, 0, *worldSize - 1);
  if (!rank.ok()) return rank.status();
  launch.rank = launch.localRank = *rank;
  Result<int> here = readRanksHere(launch);
  if (!here.ok()) return here.status();
  launch.ranksHere = *here;
  if (variable(launch.launcher->localRank).empty()) return launch;
  Result<int> localRank = numberIn(launch.launcher->localRank, 0, *here - 1);
  if (!localRank.ok()) return localRank.status();
  launch.localRank = *localRank;
  return launch;
}

HubIsTold boardOf(const Launch& launch) {
  if (!variable("MASTER_ADDR").empty() || !variable("MASTER_PORT").empty()) return HubIsTold::kByVariables;
  const char* const needed = launch.launcher->boardVariable;
  return needed && !variable(needed).empty() ? launch.launcher->board : HubIsTold::kByVariables;
}

Result<HostPort> masterOf(const Launch& launch) {
  HostPort master{variable("MASTER_ADDR"), 0};
  if (master.host.empty() && isSlurm(launch)) master.host = firstOfNodeList(variable("SLURM_STEP_NODELIST"));
  if (master.host.empty()) {
    return usageError("the ranks stand on several hosts (" + std::to_string(launch.ranksHere) + " of " +
                      std::to_string(launch.worldSize) +
                      " on this one), and MASTER_ADDR is not set; set it to the host of rank 0, for every rank");
  }
  if (variable("MASTER_PORT").empty() && isSlurm(launch) && !variable("SLURM_JOB_ID").empty()) {
    Result<int> job = numberIn("SLURM_JOB_ID", 0, INT32_MAX);
    if (!job.ok()) return job.status();
    master.port = 12000 + *job % 20000;
    return master;
  }
  Result<int> port = numberIn("MASTER_PORT", 1, 65535);
  if (!port.ok()) return port.status();
  master.port = *port;
  if (variable("TORCHELASTIC_USE_AGENT_STORE") == "True") master.port += *port < 65535 ? 1 : -1;
  return master;
}

std::string firstOfNodeList(const std::string& list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const size_t end = list.find_first_of("-,]", bracket);
  return end == std::string::npos ? "" : list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

int tasksOfNode(const std::string& counts, int node) {
  const char* at = counts.c_str();
  while (*at >= '0' && *at <= '9') {
    char* end = nullptr;
    const long tasks = std::strtol(at, &end, 10);
    long nodes = 1;
    if (end[0] == '(' && end[1] == 'x') {
      nodes = std::strtol(end + 2, &end, 10);
      if (*end++ != ')') return 0;
    }
    if (tasks < 1 || tasks > kMostRanks || nodes < 1) return 0;
    if (node < nodes) return static_cast<int>(tasks);
    node -= static_cast<int>(nodes);
    if (*end != ',') return 0;
    at = end + 1;
  }
  return 0;
}

}  // namespace hycrt
