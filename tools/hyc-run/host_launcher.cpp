// ssh to every host, and the end of all when one ends badly.
#include "host_launcher.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "agent.h"
#include "hycrt/printable.h"
#include "hycrt/token.h"
#include "launcher.h"

extern char** environ;

namespace hycrun {
namespace {

using hycrt::Result;
using hycrt::Status;

constexpr int kPollMs = 200;
constexpr int kGraceMs = 4000, kGracePollMs = 5;  // for ranks to be ended on the other side
constexpr int64_t kOtherCauseMs = 1000;
constexpr char kSsh[] = "/usr/bin/ssh";
constexpr int kSshFailed = 255;
constexpr int kLowPort = 10000, kPorts = 20000;

int64_t nowMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

std::string absolute(const std::string& path) {
  char text[PATH_MAX];
  return realpath(path.c_str(), text) ? text : path;
}

// For the shell of a user on another host.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

int somePort(const std::string& runName) {
  unsigned sum = 0;
  for (unsigned char c : runName) sum = sum * 31 + c;
  return kLowPort + static_cast<int>(sum % kPorts);
}

}  // namespace

HostLauncher::HostLauncher(const hycrt::Manifest& manifest, const hycrt::RunOptions& options, std::string runName)
    : manifest_(manifest), options_(options), runName_(std::move(runName)), display_(stdout) {
  sigemptyset(&formerSignals_);
}

HostLauncher::~HostLauncher() {
  for (size_t host : endAll(hosts_)) hosts_[host].abandon();
  closeAndForget(&signalFd_);
}

Result<std::vector<Share>> HostLauncher::place() const {
  Result<std::vector<Host>> hosts = readHostfile(options_.hostfile);
  if (!hosts.ok()) return hosts.status();
  HYCRT_RETURN_IF_ERROR(selectHosts(options_.include, options_.exclude, &*hosts));
  return shareRanks(*hosts, static_cast<int>(manifest_.ranks.size()));
}

Result<int> HostLauncher::run() {
  Result<std::vector<Share>> shares = place();
  if (!shares.ok()) return shares.status();
  shares_ = std::move(*shares);
  const std::string token = hycrt::makeToken();
  if (token.empty()) return hycrt::unavailableError("several hosts need a token, and this hyc-run has no OpenSSL");
  HYCRT_RETURN_IF_ERROR(prepare());
  for (const Share& share : shares_) {
    HYCRT_RETURN_IF_ERROR(startHost(share, shares_.front().host, token, somePort(runName_)));
  }
  while (anyRunning()) watch();
  for (size_t host = 0; host < hosts_.size(); ++host) passOn(host);
  if (exitStatus_ != 0) return exitStatus_;
  std::sort(memory_.begin(), memory_.end(),
            [](const hycrt::MemoryRecord& a, const hycrt::MemoryRecord& b) { return a.rank < b.rank; });
  display_.clear();
  std::fputs(hycrt::toTable(memory_).c_str(), stdout);
  if (!options_.measureMemory.empty()) {
    HYCRT_RETURN_IF_ERROR(hycrt::writeMemoryRecords(memory_, options_.measureMemory, runName_));
  }
  return 0;
}

Status HostLauncher::prepare() {
  if (!options_.logFile.empty()) {
    Result<std::unique_ptr<hycrt::StepLog>> log = hycrt::StepLog::open(options_.logFile);
    if (!log.ok()) return log.status();
    log_ = std::move(*log);
  }
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &formerSignals_);
  signalFd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  return signalFd_ < 0 ? hycrt::errnoError("cannot wait for signals", errno) : Status();
}

// The command is the same everywhere, and the rest comes by the standard input, where no shell reads it.
Status HostLauncher::startHost(const Share& share, const std::string& master, const std::string& token, int port) {
  AgentTask task;
  task.folder = absolute(manifest_.folder);
  task.directory = absolute(".");
  task.token = token;
  task.runName = runName_;
  task.masterAddress = master;
  task.masterPort = port;
  task.first = share.first;
  task.count = share.count;
  task.arguments = hycrt::argumentsForRanks(options_);
  Result<std::string> input = encodeTask(task);
  if (!input.ok()) return input.status();
  RankCommand command;
  command.arguments = {kSsh, "-T",
                       "-o", "BatchMode=yes",
                       "-o", "ConnectTimeout=20",
                       "-o", "ServerAliveInterval=5",
                       "-o", "ServerAliveCountMax=3"};
  if (options_.sshPort != 0) {
    command.arguments.insert(command.arguments.end(), {"-p", std::to_string(options_.sshPort)});
  }
  command.arguments.insert(command.arguments.end(),
                           {"--", share.host, quoted(absolute("/proc/self/exe")) + " " + kAgentFlag});
  for (char** variable = environ; *variable; ++variable) command.environment.push_back(*variable);
  command.signals = formerSignals_;
  command.input = *input;
  Result<RankProcess> process = RankProcess::start(command);
  if (!process.ok()) return process.status();
  hosts_.push_back(std::move(*process));
  return {};
}

void HostLauncher::watch() {
  std::vector<pollfd> polled{{signalFd_, POLLIN, 0}};
  for (const RankProcess& host : hosts_) {
    polled.push_back({host.outputFd, POLLIN, 0});
    polled.push_back({host.errorFd, POLLIN, 0});
  }
  poll(polled.data(), polled.size(), kPollMs);
  takeSignals();
  for (size_t host = 0; host < hosts_.size(); ++host) passOn(host);
  if (!stopping_) lookForEnds();
}

void HostLauncher::passOn(size_t host) {
  RankProcess& process = hosts_[host];
  const auto take = [&](int* fd, LineReader& reader, FILE* to) {
    if (*fd < 0) return;
    std::vector<std::string> lines;
    if (!reader.read(*fd, &lines)) closeAndForget(fd);
    for (const std::string& line : lines) {
      if (!line.empty() && line[0] == kRecordMark) {
        takeRecord(line.substr(1));
        continue;
      }
      display_.clear();
      std::fprintf(to, "%s: %s\n", shares_[host].host.c_str(), hycrt::printable(line).c_str());
    }
    std::fflush(to);
  };
  take(&process.outputFd, process.output, stdout);
  take(&process.errorFd, process.errors, stderr);
}

void HostLauncher::takeRecord(const std::string& line) {
  if (line.compare(0, 9, "{\"memory\"") == 0) {
    if (Result<hycrt::MemoryRecord> record = hycrt::parseMemoryRecord(line); record.ok()) memory_.push_back(*record);
    return;
  }
  Result<hycrt::StepRecord> record = hycrt::parseStepRecord(line);
  if (!record.ok()) return;  // a line that the end of rank 0 cut off
  display_.show(*record);
  const Status status = log_ ? log_->append(*record) : Status();
  if (status.ok() || stopping_) return;
  display_.clear();
  std::fprintf(stderr, "hyc-run: error: %s\n", status.message().c_str());
  exitStatus_ = status.exitCode();
  stopAll();
}

void HostLauncher::takeSignals() {
  signalfd_siginfo info;
  while (read(signalFd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD || stopping_) continue;
    display_.clear();
    const char* const name = sigabbrev_np(signal);
    std::fprintf(stderr, "hyc-run: stopped by SIG%s; all ranks were ended\n", name ? name : "?");
    exitStatus_ = 128 + signal;
    stopAll();
  }
}

// A host whose ranks have only lost another's is waited with for a moment: the other one says more.
void HostLauncher::lookForEnds() {
  for (size_t host = 0; host < hosts_.size(); ++host) {
    RankEnd end;
    if (!hosts_[host].isRunning() || !hosts_[host].pollEnd(&end) || !end.failed()) continue;
    passOn(host);
    if (exitStatus_ == 0 || exitStatus_ == static_cast<int>(hycrt::StatusCode::kPeerLost)) {
      exitStatus_ =
          end.asExitStatus() == kSshFailed ? static_cast<int>(hycrt::StatusCode::kUnavailable) : end.asExitStatus();
    }
    display_.clear();
    if (end.asExitStatus() == kSshFailed) {
      std::fprintf(stderr, "hyc-run: host '%s' cannot be reached by ssh, or its connection has ended\n",
                   shares_[host].host.c_str());
    }
    if (firstLossMs_ == 0) firstLossMs_ = nowMs();
  }
  if (exitStatus_ == 0) return;
  const bool isCause = exitStatus_ != static_cast<int>(hycrt::StatusCode::kPeerLost);
  if (!isCause && nowMs() - firstLossMs_ < kOtherCauseMs && anyRunning()) return;
  std::fprintf(stderr, "hyc-run: the ranks of all %zu hosts were ended\n", shares_.size());
  stopAll();
}

// The other side ends its ranks when its input ends.
void HostLauncher::stopAll() {
  stopping_ = true;
  for (RankProcess& host : hosts_) closeAndForget(&host.inputFd);
  for (int waited = 0; anyRunning() && waited < kGraceMs; waited += kGracePollMs) {
    RankEnd ignored;
    for (size_t host = 0; host < hosts_.size(); ++host) {
      passOn(host);
      if (hosts_[host].isRunning()) hosts_[host].pollEnd(&ignored);
    }
    if (anyRunning()) poll(nullptr, 0, kGracePollMs);
  }
  for (size_t host : endAll(hosts_)) hosts_[host].abandon();
}

bool HostLauncher::anyRunning() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [](const RankProcess& host) { return host.isRunning(); });
}

namespace {

Result<int> runTask() {
  Result<AgentTask> task = receiveTask(STDIN_FILENO);
  if (!task.ok()) return task.status();
  if (chdir(task->directory.c_str()) != 0) {
    return hycrt::errnoError("cannot enter '" + task->directory + "' on this host", errno);
  }
  std::vector<const char*> words{"hyc-run", task->folder.c_str()};
  for (const std::string& argument : task->arguments) words.push_back(argument.c_str());
  Result<hycrt::ParsedCommandLine> parsed =
      hycrt::parseCommandLine(static_cast<int>(words.size()), words.data(), hycrt::CommandLine::kHycRun);
  if (!parsed.ok()) return parsed.status();
  Result<hycrt::Manifest> manifest = hycrt::readManifest(task->folder);
  if (!manifest.ok()) return manifest.status();
  HYCRT_RETURN_IF_ERROR(hycrt::takeEntry(*manifest, &parsed->options));
  if (task->first < 0 || task->count < 1 || task->first > static_cast<int>(manifest->ranks.size()) - task->count) {
    return hycrt::dataError("'" + task->folder + "' has " + std::to_string(manifest->ranks.size()) +
                            " ranks on this host, expected what the host of hyc-run has; copy the folder there");
  }
  const HostTask here{task->first, task->count, task->masterAddress, task->token, task->masterPort};
  return Launcher(*manifest, parsed->options, task->runName, &here).run();
}

}  // namespace

int runAgent() {
  const Result<int> status = runTask();
  if (status.ok()) return *status;
  std::fprintf(stderr, "hyc-run: error: %s\n", hycrt::printable(status.status().message()).c_str());
  return status.status().exitCode();
}

}  // namespace hycrun
