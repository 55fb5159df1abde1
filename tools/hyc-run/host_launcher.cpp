// ssh to every host, and the end of all when one ends badly.
#include "host_launcher.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "agent.h"
#include "base/clock.h"
#include "comm/tcp/addresses.h"
#include "copy_out.h"
#include "hycrt/log.h"
#include "hycrt/printable.h"
#include "hycrt/token.h"
#include "launcher.h"
#include "sizes.h"
#include "ssh.h"
#include "user_signal.h"

namespace hycrun {
namespace {

using hycrt::Result;
using hycrt::Status;

constexpr int kPollMs = 200;
constexpr int kGraceMs = 4000;  // for ranks to be ended on the other side
constexpr int kMostProbes = 32;
constexpr int64_t kProbeMs = 300;  // for an answer of who listens; behind a firewall there is none
constexpr char kUnreachable[] = " cannot be reached by ssh, or its connection has ended";

}  // namespace

HostLauncher::HostLauncher(const hycrt::Manifest& manifest, const hycrt::RunOptions& options, std::string runName,
                           Signals& signals, Report& report, const std::set<std::string>& leftOut, CopyHosts* copies,
                           Replanner* replanner)
    : manifest_(manifest),
      options_(options),
      runName_(std::move(runName)),
      leftOut_(leftOut),
      copies_(copies),
      replanner_(replanner),
      signals_(signals),
      report_(report) {}

HostLauncher::~HostLauncher() {
  for (size_t host : endAll(hosts_)) hosts_[host].abandon();
}

Result<std::vector<Share>> HostLauncher::place() const {
  Result<std::vector<Host>> hosts = hostsOf(options_, leftOut_);
  if (!hosts.ok()) return hosts.status();
  return shareRanks(*hosts, static_cast<int>(manifest_.ranks.size()));
}

// Along the innermost axis ranks have most to say to each other.
void HostLauncher::noteSplitGroup() const {
  const hycrt::Mesh& mesh = manifest_.mesh;
  if (mesh.axes.size == 0) return;
  const hycrt::MeshAxis& inner = mesh.axes[mesh.axes.size - 1];
  for (size_t host = 0; host + 1 < shares_.size(); ++host) {
    const int next = shares_[host + 1].first, first = next - next % inner.size;
    if (first == next) continue;
    report_.say("ranks " + std::to_string(first) + " to " + std::to_string(first + inner.size - 1) + ", a group of " +
                inner.name + ", stand on hosts '" + shares_[host].host + "' and '" + shares_[host + 1].host +
                "': give hosts slots in multiples of " + std::to_string(inner.size) + ", and it stays inside one");
    return;
  }
}

// Of --ports, where nobody else is found to listen at rank 0's host; or by the run's name, of so many that two runs
// seldom have the same.
int HostLauncher::meetingPort() const {
  const int start = portFor(runName_);
  int low = 0, high = 0;
  if (options_.ports.empty() || !hycrt::parsePorts(options_.ports, &low, &high)) return start;
  const std::string& host = shares_.front().host;
  const int count = high - low + 1;
  for (int tried = 0; tried < std::min(count, kMostProbes); ++tried) {
    const int port = low + (start + tried) % count;
    const bool isKeepers = copies_ && copies_->portAt(host) == port;
    if (!isKeepers && !hycrt::reach(host, port, hycrt::monotonicMs() + kProbeMs).ok()) return port;
  }
  return low + start % count;
}

Result<RunEnd> HostLauncher::run() {
  Result<std::vector<Share>> shares = place();
  if (!shares.ok()) return shares.status();
  shares_ = std::move(*shares);
  noteSplitGroup();
  const std::string token = hycrt::makeToken();
  if (token.empty()) return hycrt::unavailableError("several hosts need a token, and this hyc-run has no OpenSSL");
  if (copies_) {
    const Result<std::string> missing = copies_->open(shares_);
    if (!missing.ok()) return missing.status();
    if (!missing->empty()) {
      lose(*missing, kUnreachable);
      return end_;
    }
  }
  if (options_.copyOut) {
    Result<RunEnd> copied = copyOut(manifest_, shares_, options_, signals_, report_);
    if (!copied.ok() || copied->status != 0) return copied;
  }
  const int port = meetingPort();
  for (const Share& share : shares_) {
    HYCRT_RETURN_IF_ERROR(startHost(share, shares_.front().host, token, port));
  }
  while (anyRunning()) watch();
  for (size_t host = 0; host < hosts_.size(); ++host) passOn(host);
  if (end_.status == 0 && endsAsWished_) end_ = {kPeerLost, RunEnd::How::kAsked, ""};
  return end_;
}

// The command is the same everywhere, and the rest comes by the standard input, where no shell reads it.
Status HostLauncher::startHost(const Share& share, const std::string& master, const std::string& token, int port) {
  AgentTask task;
  task.folder = absolutePath(manifest_.folder);
  task.directory = absolutePath(".");
  task.token = token;
  task.runName = runName_;
  task.masterAddress = master;
  task.masterPort = port;
  task.first = share.first;
  task.count = share.count;
  if (copies_) task.copies = copies_->taskFor(share.host);
  task.arguments = hycrt::argumentsForRanks(options_);
  task.variables = passedVariables();
  Result<std::string> input = encodeTask(task);
  if (!input.ok()) return input.status();
  Result<RankProcess> process =
      RankProcess::start(commandOn(share.host, options_.sshPort, kAgentFlag, *input, signals_.former()));
  if (!process.ok()) return process.status();
  hosts_.push_back(std::move(*process));
  return {};
}

void HostLauncher::watch() {
  std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
  for (const RankProcess& host : hosts_) {
    polled.push_back({host.outputFd, POLLIN, 0});
    polled.push_back({host.errorFd, POLLIN, 0});
  }
  if (copies_) copies_->addPolled(&polled);
  if (replanner_) replanner_->addPolled(&polled);
  poll(polled.data(), polled.size(), kPollMs);
  takeSignals();
  for (size_t host = 0; host < hosts_.size(); ++host) passOn(host);
  if (!stopping_ && replanner_) replanner_->advance();
  if (!stopping_) lookForEnds();
  if (!stopping_ && copies_) lookForKeepers();
}

void HostLauncher::lose(const std::string& host, const std::string& how) {
  end_ = {static_cast<int>(hycrt::StatusCode::kUnavailable), isAsked_ ? RunEnd::How::kAsked : RunEnd::How::kFailed,
          "host '" + host + "'" + how, host, /*isHostLost=*/true};
  report_.say("host '" + host + "'" + how);
}

// Copies are made no more without it, and with it went those that were there: the ranks go on from the newest that is
// whole, and have a new one. Where the run ends with a checkpoint they are of no use any more.
void HostLauncher::lookForKeepers() {
  const std::string lost = copies_->takeLost();
  if (lost.empty() || isAsked_ || !anyRunning()) return;
  if (end_.status == 0 || end_.status == kPeerLost) lose(lost, " has lost the hyc-run that keeps copies there");
  sayThatAllWereEnded();
  stopAll();
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
      report_.clear();
      report_.print(to, shares_[host].host + ": " + hycrt::printable(line) + "\n");
    }
  };
  take(&process.outputFd, process.output, stdout);
  take(&process.errorFd, process.errors, stderr);
}

void HostLauncher::takeRecord(const std::string& line) {
  const Status status = report_.take(line);
  if (status.ok() || stopping_) return;
  report_.say("error: " + status.message());
  end_ = {status.exitCode(), RunEnd::How::kFailed, status.message()};
  stopAll();
}

// As Launcher does, but that the other hosts' hyc-runs pass the signals on.
void HostLauncher::takeSignals() {
  while (const int signal = signals_.take()) {
    if (signal == SIGCHLD || stopping_) continue;
    const SignalEffect effect = effectOf(signal, !options_.checkpoint.empty(), isAsked_);
    if (!effect.words.empty()) report_.say(effect.words);
    switch (effect.kind) {
      case SignalEffect::Kind::kTellsWhere:
        pass(kWhereLetter);
        break;
      case SignalEffect::Kind::kNothing:
        break;
      case SignalEffect::Kind::kSaves:
        pass(kCheckpointLetter);
        break;
      case SignalEffect::Kind::kSavesAndEnds:
        isAsked_ = true;
        pass(kEndLetter);
        break;
      case SignalEffect::Kind::kEnds:
        end_ = {128 + signal, RunEnd::How::kAsked, Signals::nameOf(signal)};
        stopAll();
        break;
    }
  }
}

// One that cannot be told has other troubles.
void HostLauncher::pass(char letter) {
  for (const RankProcess& host : hosts_) {
    if (host.inputFd >= 0 && write(host.inputFd, &letter, 1) < 0) Signals::forgetBrokenPipe();
  }
}

bool HostLauncher::isAsWished(const RankEnd& end) const {
  return (report_.endsEarly() || isAsked_) && end.exitStatus == kPeerLost;
}

// Where a rank of this one has waited in vain for another, that one's.
const std::string& HostLauncher::hostToBlame(size_t host) const {
  const int rank = report_.blamedRank();
  const auto holds = [rank](const Share& share) { return rank >= share.first && rank < share.first + share.count; };
  const auto found = std::find_if(shares_.begin(), shares_.end(), holds);
  return found == shares_.end() ? shares_[host].host : found->host;
}

// A host whose ranks have only lost another's is waited with for a moment: the other one says more.
void HostLauncher::lookForEnds() {
  for (size_t host = 0; host < hosts_.size(); ++host) {
    RankEnd end;
    if (!hosts_[host].isRunning() || !hosts_[host].pollEnd(&end) || !end.failed()) continue;
    passOn(host);
    endsAsWished_ |= isAsWished(end);
    if (isAsWished(end)) continue;
    const bool isLost = end.asExitStatus() == kSshFailed;
    const std::string& blamed = isLost ? shares_[host].host : hostToBlame(host);
    const std::string name = "host '" + blamed + "'";
    if (end_.status == 0 || end_.status == kPeerLost) {
      const std::string how = isLost ? kUnreachable : " ended with status " + std::to_string(end.asExitStatus());
      end_ = {isLost ? static_cast<int>(hycrt::StatusCode::kUnavailable) : end.asExitStatus(),
              isAsked_ ? RunEnd::How::kAsked : RunEnd::How::kFailed,
              report_.failure().empty() || isLost ? name + how : report_.failure() + " (" + name + ")", blamed, isLost};
    }
    if (isLost) report_.say(name + kUnreachable);
    if (firstLossMs_ == 0) firstLossMs_ = hycrt::monotonicMs();
  }
  if (end_.status == 0) return;
  if (end_.status == kPeerLost && hycrt::monotonicMs() - firstLossMs_ < kOtherCauseMs && anyRunning()) return;
  sayThatAllWereEnded();
  stopAll();
}

void HostLauncher::sayThatAllWereEnded() const {
  report_.say(shares_.size() == 1 ? "all ranks were ended"
                                  : "the ranks of all " + std::to_string(shares_.size()) + " hosts were ended");
}

// The other side ends its ranks when its input ends.
void HostLauncher::stopAll() {
  stopping_ = true;
  for (RankProcess& host : hosts_) closeAndForget(&host.inputFd);
  waitForEnds(kGraceMs, [&] {
    RankEnd ignored;
    for (size_t host = 0; host < hosts_.size(); ++host) {
      passOn(host);
      if (hosts_[host].isRunning()) hosts_[host].pollEnd(&ignored);
    }
    return !anyRunning();
  });
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
  for (const std::string& variable : task->variables) {
    const size_t equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  HYCRT_RETURN_IF_ERROR(hycrt::checkLogLevel());
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
  const HostTask here{task->first, task->count, task->masterAddress, task->token, task->masterPort, task->copies};
  Signals signals;
  HYCRT_RETURN_IF_ERROR(signals.open());
  Report report(parsed->options, signals);  // the other hyc-run's
  Result<RunEnd> end = Launcher(*manifest, parsed->options, task->runName, signals, report, &here).run();
  return end.ok() ? Result<int>(end->status) : Result<int>(end.status());
}

}  // namespace

int runAgent() {
  const Result<int> status = runTask();
  if (status.ok()) return *status;
  std::fprintf(stderr, "hyc-run: error: %s\n", hycrt::printable(status.status().message()).c_str());
  return status.status().exitCode();
}

}  // namespace hycrun
