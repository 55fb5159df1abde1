// Reading the launcher's variables; a contradiction names the variable.
#include "base/environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/launchers.h"
#include "base/secret.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr size_t kMaxSocketPathBytes = 108 - sizeof ".lock";  // of sockaddr_un, and of the lock beside it

// One line of a file that nobody but its owner, who is this user, may read; or, since only root gives files to groups
// that it chooses, of one of root's that a group of this user's may read, as a secret of Kubernetes is.
Result<std::string> readTokenFile(const std::string& path) {
  const std::string what = std::string(kTokenFileVariable) + " '" + path + "'";
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  struct stat info;
  if (fstat(file->get(), &info) != 0) return errnoError("cannot examine '" + path + "'", errno);
  const bool isOwn = info.st_uid == geteuid() && (info.st_mode & 077) == 0;
  const bool isRoots = info.st_uid == 0 && geteuid() != 0 && (info.st_mode & 037) == 0;
  if (!isOwn && !isRoots) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(info.st_mode & 07777));
    return usageError(what + " belongs to user " + std::to_string(info.st_uid) + " and has mode " + mode +
                      ", expected a file of user " + std::to_string(geteuid()) +
                      " that nobody else may read: chmod 600; or one of root's, of mode 0440");
  }
  Result<std::string> text = readWholeFile(path, static_cast<int64_t>(kMaxTokenBytes) + 2);
  if (!text.ok()) return text.status();
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
  return text;
}

Status readToken(Environment* environment) {
  environment->checksOnly = variable(kCheckOnlyVariable) == "1";
  const std::string path = variable(kTokenFileVariable);
  environment->token = variable(kTokenVariable);
  if (path.empty() && environment->token.empty()) return {};
  std::string source = kTokenVariable;
  if (!path.empty()) {
    if (!environment->token.empty()) {
      return usageError(std::string(kTokenVariable) + " and " + kTokenFileVariable + " are both set; keep one of them");
    }
    Result<std::string> token = readTokenFile(path);
    if (!token.ok()) return token.status();
    environment->token = *token;
    source = std::string(kTokenFileVariable) + " '" + path + "'";
  }
  if (!canProveTokens()) {
    return unavailableError(source +
                            " gives a token, but this runtime was built without OpenSSL; build it where "
                            "libssl-dev is installed, or leave the token out");
  }
  const size_t bytes = environment->token.size();
  if (bytes >= kMinTokenBytes && bytes <= kMaxTokenBytes) return {};
  return usageError(source + " gives a token of " + std::to_string(bytes) + " bytes, expected " +
                    std::to_string(kMinTokenBytes) + " to " + std::to_string(kMaxTokenBytes) +
                    "; make one by: openssl rand -hex 32");
}

}  // namespace

Result<std::string> socketPath(std::string name) {
  std::string folder = variable("TMPDIR");
  if (folder.empty() || folder[0] != '/') folder = "/tmp";
  for (char& c : name) {
    const bool isPlain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
    if (!isPlain) c = '_';
  }
  const std::string path = folder + "/hyc-" + std::to_string(geteuid()) + "/" + name;
  if (path.size() < kMaxSocketPathBytes) return path;
  return usageError("'" + path + "', where the ranks would meet, is longer than the " +
                    std::to_string(kMaxSocketPathBytes - 1) +
                    " bytes that a socket's name may have; set TMPDIR to a shorter folder");
}

namespace {

// torchrun's agent, which has MASTER_PORT for itself.
bool hasAgentStore() { return variable("TORCHELASTIC_USE_AGENT_STORE") == "True"; }

Status takeSocket(const std::string& name, Environment* environment) {
  Result<std::string> path = socketPath(name);
  if (path.ok()) environment->socketName = *path;
  return path.status();
}

// Ranks of several hosts meet at rank 0's, by TCP.
Status readDistantMeetingPoint(const Launch& launch, Environment* environment) {
  Result<HostPort> master = masterOf(launch);
  if (!master.ok()) return master.status();
  environment->masterAddress = master->host;
  environment->port = master->port;
  environment->job += master->host + "/" + std::to_string(master->port);
  if (!hasAgentStore()) return {};
  environment->hubIsTold = HubIsTold::kByTorchStore;
  Result<int> agent = numberIn("MASTER_PORT", 1, 65535);
  if (agent.ok()) environment->agentPort = *agent;
  return agent.status();
}

// Without a token nobody can show over TCP who they are: ranks of one host meet where only this user's processes come.
// So do they where torchrun's agent keeps MASTER_PORT for a store of its own.
Status readMeetingPoint(const Launch& launch, Environment* environment) {
  environment->socketName = variable(kRendezvousVariable);
  environment->underHycRun = !environment->socketName.empty();
  environment->job = environment->socketName;
  environment->hubIsTold = environment->underHycRun ? HubIsTold::kByVariables : boardOf(launch);
  if (environment->hubIsTold == HubIsTold::kByPmi) {
    Result<int> descriptor = numberIn(kPmiVariable, 0, 1 << 20);
    if (!descriptor.ok()) return descriptor.status();
    environment->pmiDescriptor = *descriptor;
  }
  if (environment->hubIsTold != HubIsTold::kByVariables) return {};
  if (environment->hosts > 1) {
    environment->job += variable("TORCHELASTIC_RUN_ID") + "/" + variable("TORCHELASTIC_RESTART_COUNT") + "/";
    environment->socketName.clear();
    return readDistantMeetingPoint(launch, environment);
  }
  // For --transport tcp, which is for trying it out.
  environment->masterAddress = variable("MASTER_ADDR").empty() ? "127.0.0.1" : variable("MASTER_ADDR");
  if (environment->underHycRun && variable("MASTER_PORT").empty()) return {};
  if (isSlurm(launch) && variable("MASTER_PORT").empty()) {
    environment->job = "slurm-" + variable("SLURM_JOB_ID") + "-" + variable("SLURM_STEP_ID");
    return takeSocket(environment->job, environment);
  }
  Result<int> port = numberIn("MASTER_PORT", 1, 65535);
  if (!port.ok()) return port.status();
  environment->port = *port;
  if (environment->underHycRun) return {};
  const std::string runId = variable("TORCHELASTIC_RUN_ID");
  environment->job = std::to_string(*port) + "/" + runId;
  if (!environment->token.empty() && !hasAgentStore()) return {};
  return takeSocket(std::to_string(*port) + (runId.empty() ? "" : "-" + runId.substr(0, 40)), environment);
}

}  // namespace

Result<Environment> readEnvironment(const Mesh& mesh) {
  Environment environment;
  environment.run = variable(kRendezvousVariable);
  if (environment.run.empty() || environment.run.find('/') != std::string::npos) environment.run = "hyc-" + makeName();
  const int expected = rankCount(mesh);
  Result<Launch> launch = readLaunch(expected == 1);
  if (!launch.ok()) return launch.status();
  if (launch->worldSize == 0) {
    if (expected == 1) return environment;
    return usageError("this program is one of " + std::to_string(expected) + " ranks (" + describe(mesh) +
                      ") and neither RANK nor WORLD_SIZE is set; start it with hyc-run, torchrun, mpirun or srun");
  }
  environment.worldSize = launch->worldSize;
  if (launch->worldSize != expected) {
    return usageError(std::string(launch->launcher->worldSize) + " is " + std::to_string(launch->worldSize) +
                      ", expected " + describe(mesh) + " = " + std::to_string(expected));
  }
  environment.rank = launch->rank;
  environment.localRank = launch->localRank;
  environment.ranksHere = launch->ranksHere;
  environment.hosts = (launch->worldSize + launch->ranksHere - 1) / launch->ranksHere;
  if (!variable(kRecordFdVariable).empty()) {
    Result<int> fd = numberIn(kRecordFdVariable, 3, 1 << 20);
    if (!fd.ok()) return fd.status();
    environment.recordFd = *fd;
  }
  environment.copySocket = variable(kCopySocketVariable);
  environment.copyResume = variable(kCopyResumeVariable);
  environment.copyStart = std::atoll(variable(kCopyStartVariable).c_str());
  if (environment.worldSize == 1) return environment;
  HYCRT_RETURN_IF_ERROR(readToken(&environment));
  HYCRT_RETURN_IF_ERROR(readMeetingPoint(*launch, &environment));
  return environment;
}

}  // namespace hycrt
