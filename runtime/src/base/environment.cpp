// Reading the launcher's variables; a contradiction names the variable.
#include "base/environment.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace hycrt {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The whole text as a decimal number in [low, high].
Result<int> number(const char* name, int low, int high) {
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

// Launchers give each machine equally many ranks.
Status readSurroundings(Environment* environment) {
  environment->ranksHere = environment->worldSize;
  if (variable("LOCAL_WORLD_SIZE").empty()) return {};
  Result<int> local = number("LOCAL_WORLD_SIZE", 1, environment->worldSize);
  if (!local.ok()) return local.status();
  environment->ranksHere = *local;
  environment->hosts = (environment->worldSize + *local - 1) / *local;
  if (environment->hosts == 1) return {};
  return unavailableError("LOCAL_WORLD_SIZE is " + std::to_string(*local) + " and WORLD_SIZE " +
                          std::to_string(environment->worldSize) +
                          ": the ranks of a job share one machine's memory; start all of them on one machine");
}

// torchrun's agent may keep MASTER_PORT for a store of its own. Then nothing can listen there, and all ranks derive the
// socket's name from what they were told alike.
Status readMeetingPoint(Environment* environment) {
  environment->socketName = variable(kRendezvousVariable);
  if (!environment->socketName.empty()) {
    environment->underHycRun = true;
    return {};
  }
  Result<int> port = number("MASTER_PORT", 1, 65535);
  if (!port.ok()) return port.status();
  environment->port = *port;
  if (variable("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    environment->socketName = "hyc-" + std::to_string(getuid()) + "-" + std::to_string(*port) + "-" +
                              variable("TORCHELASTIC_RUN_ID").substr(0, 40);
  }
  return {};
}

}  // namespace

Result<Environment> readEnvironment(const Mesh& mesh) {
  Environment environment;
  const int expected = rankCount(mesh);
  if (variable("RANK").empty() && variable("WORLD_SIZE").empty()) {
    if (expected == 1) return environment;
    return usageError("this program is one of " + std::to_string(expected) + " ranks (" + describe(mesh) +
                      ") and neither RANK nor WORLD_SIZE is set; start it with hyc-run, torchrun or mpirun");
  }
  Result<int> worldSize = number("WORLD_SIZE", 1, 1 << 20);
  if (!worldSize.ok()) return worldSize.status();
  environment.worldSize = *worldSize;
  if (*worldSize != expected) {
    return usageError("WORLD_SIZE is " + std::to_string(*worldSize) + ", expected " + describe(mesh) + " = " +
                      std::to_string(expected));
  }
  Result<int> rank = number("RANK", 0, *worldSize - 1);
  if (!rank.ok()) return rank.status();
  environment.rank = *rank;
  environment.localRank = *rank;
  if (!variable("LOCAL_RANK").empty()) {
    Result<int> localRank = number("LOCAL_RANK", 0, *worldSize - 1);
    if (!localRank.ok()) return localRank.status();
    environment.localRank = *localRank;
  }
  if (!variable(kRecordFdVariable).empty()) {
    Result<int> fd = number(kRecordFdVariable, 3, 1 << 20);
    if (!fd.ok()) return fd.status();
    environment.recordFd = *fd;
  }
  environment.token = variable(kTokenVariable);
  if (environment.token.size() > kMaxTokenBytes) {
    return usageError(std::string(kTokenVariable) + " has " + std::to_string(environment.token.size()) +
                      " bytes, expected at most " + std::to_string(kMaxTokenBytes));
  }
  HYCRT_RETURN_IF_ERROR(readSurroundings(&environment));
  if (*worldSize > 1) HYCRT_RETURN_IF_ERROR(readMeetingPoint(&environment));
  return environment;
}

}  // namespace hycrt
