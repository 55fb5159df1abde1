// Reading the launcher's variables; a contradiction names the variable.
#include "base/environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "base/secret.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr size_t kMaxSocketPathBytes = 108 - sizeof ".lock";  // of sockaddr_un, and of the lock beside it

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

// One line of a file that nobody but its owner, who is this user, may read.
Result<std::string> readTokenFile(const std::string& path) {
  const std::string what = std::string(kTokenFileVariable) + " '" + path + "'";
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  struct stat info;
  if (fstat(file->get(), &info) != 0) return errnoError("cannot examine '" + path + "'", errno);
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(info.st_mode & 07777));
    return usageError(what + " belongs to user " + std::to_string(info.st_uid) + " and has mode " + mode +
                      ", expected a file of user " + std::to_string(geteuid()) +
                      " that nobody else may read: chmod 600");
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

// The name of a socket in a folder that only this user may enter.
Result<std::string> socketPath(int port, const std::string& runId) {
  std::string folder = variable("TMPDIR");
  if (folder.empty() || folder[0] != '/') folder = "/tmp";
  std::string name = std::to_string(port);
  if (!runId.empty()) name += "-" + runId.substr(0, 40);
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

// Without a token nobody can show over TCP who they are: ranks meet where only this user's processes come. So do they
// where torchrun's agent keeps MASTER_PORT for a store of its own.
Status readMeetingPoint(Environment* environment) {
  environment->socketName = variable(kRendezvousVariable);
  if (!environment->socketName.empty()) {
    environment->underHycRun = true;
    environment->job = environment->socketName;
    return {};
  }
  Result<int> port = number("MASTER_PORT", 1, 65535);
  if (!port.ok()) return port.status();
  const std::string runId = variable("TORCHELASTIC_RUN_ID");
  environment->port = *port;
  environment->job = std::to_string(*port) + "/" + runId;
  if (!environment->token.empty() && variable("TORCHELASTIC_USE_AGENT_STORE") != "True") return {};
  Result<std::string> path = socketPath(*port, runId);
  if (!path.ok()) return path.status();
  environment->socketName = *path;
  return {};
}

}  // namespace

Result<Environment> readEnvironment(const Mesh& mesh) {
  Environment environment;
  environment.run = variable(kRendezvousVariable);
  if (environment.run.empty() || environment.run.find('/') != std::string::npos) environment.run = "hyc-" + makeName();
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
  if (*worldSize > 1) HYCRT_RETURN_IF_ERROR(readToken(&environment));
  HYCRT_RETURN_IF_ERROR(readSurroundings(&environment));
  if (*worldSize > 1) HYCRT_RETURN_IF_ERROR(readMeetingPoint(&environment));
  return environment;
}

}  // namespace hycrt
