// Starting, listening and ending.
#include "fleet.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "base/threads.h"
#include "figure.h"
#include "hycrt/options.h"
#include "hycrt/printable.h"
#include "hycrt/token.h"
#include "rank_process.h"
#include "ssh.h"

extern char** environ;

namespace hycbench {
namespace {

using hycrt::Result;
using hycrt::Status;
using hycrt::StatusCode;
using hycrun::RankProcess;

constexpr int kPollMs = 100;

class Fleet {
 public:
  // `endsWithInput`: as standard input ends.
  Fleet(TakeLine take, bool endsWithInput) : take_(std::move(take)), endsWithInput_(endsWithInput) {}
  ~Fleet() {
    for (size_t left : hycrun::endAll(processes_)) processes_[left].abandon();
  }

  Status add(const hycrun::RankCommand& command, std::string label) {
    Result<RankProcess> process = RankProcess::start(command);
    if (!process.ok()) return process.status();
    processes_.push_back(std::move(*process));
    labels_.push_back(std::move(label));
    return {};
  }

  Status run() {
    while (anyRunning()) {
      HYCRT_RETURN_IF_ERROR(watch());
      const bool waits =
          failure_.code() == StatusCode::kPeerLost && hycrt::monotonicMs() - failedMs_ < hycrun::kOtherCauseMs;
      if (!failure_.ok() && !waits) return failure_;
    }
    for (size_t i = 0; i < processes_.size(); ++i) HYCRT_RETURN_IF_ERROR(listenTo(i));
    return failure_;
  }

 private:
  bool anyRunning() const {
    return std::any_of(processes_.begin(), processes_.end(), [](const RankProcess& one) { return one.isRunning(); });
  }

  Status watch() {
    std::vector<pollfd> polled{{endsWithInput_ ? STDIN_FILENO : -1, POLLIN, 0}};
    for (const RankProcess& one : processes_) {
      polled.push_back({one.outputFd, POLLIN, 0});
      polled.push_back({one.errorFd, POLLIN, 0});
    }
    poll(polled.data(), polled.size(), kPollMs);
    char ignored = 0;
    if (polled[0].revents != 0 && read(STDIN_FILENO, &ignored, 1) == 0) {
      return hycrt::unavailableError("the hyc-bench that has started this one is gone");
    }
    for (size_t i = 0; i < processes_.size(); ++i) {
      HYCRT_RETURN_IF_ERROR(listenTo(i));
      lookAt(i);
    }
    return {};
  }

  Status listenTo(size_t index) {
    RankProcess& one = processes_[index];
    std::vector<std::string> told, said;
    if (one.outputFd >= 0 && !one.output.read(one.outputFd, &told)) hycrun::closeAndForget(&one.outputFd);
    if (one.errorFd >= 0 && !one.errors.read(one.errorFd, &said)) hycrun::closeAndForget(&one.errorFd);
    for (const std::string& line : said) {
      std::fprintf(stderr, "%s: %s\n", labels_[index].c_str(), hycrt::printable(line).c_str());
    }
    for (const std::string& line : told) HYCRT_RETURN_IF_ERROR(take_(line));
    return {};
  }

  void lookAt(size_t index) {
    hycrun::RankEnd end;
    RankProcess& one = processes_[index];
    if (!one.isRunning() || !one.pollEnd(&end) || !end.failed()) return;
    if (!failure_.ok() && failure_.code() != StatusCode::kPeerLost) return;
    (void)listenTo(index);
    if (failure_.ok()) failedMs_ = hycrt::monotonicMs();
    const int status = end.asExitStatus();
    const std::string how = end.signal != 0 ? " was ended by signal " + std::to_string(end.signal)
                                            : " ended with status " + std::to_string(status);
    failure_ = {static_cast<StatusCode>(status), labels_[index] + how + "; nothing was written"};
    if (status == hycrun::kSshFailed && !endsWithInput_) {
      failure_ = hycrt::unavailableError(labels_[index] + " cannot be reached by ssh, or its connection has ended");
    }
  }

  const TakeLine take_;
  const bool endsWithInput_;
  std::vector<RankProcess> processes_;
  std::vector<std::string> labels_;
  Status failure_;
  int64_t failedMs_ = 0;
};

std::vector<std::string> environmentFor(const BenchOptions& options, const RanksHere& ranks, int rank) {
  std::vector<std::string> own{"RANK=" + std::to_string(rank),
                               "WORLD_SIZE=" + std::to_string(ranks.world),
                               "LOCAL_RANK=" + std::to_string(rank - ranks.first),
                               "LOCAL_WORLD_SIZE=" + std::to_string(ranks.count),
                               "HYC_RENDEZVOUS=" + ranks.runName,
                               "HYC_TOKEN=" + ranks.token,
                               "HYC_TOKEN_FILE="};
  if (!ranks.masterAddress.empty()) {
    own.push_back("MASTER_ADDR=" + ranks.masterAddress);
    own.push_back("MASTER_PORT=" + std::to_string(ranks.masterPort));
  }
  const int threads = options.threads > 0 ? options.threads : hycrt::defaultThreads(ranks.count);
  for (const std::string& variable : hycrt::waitVariables(threads * ranks.count)) own.push_back(variable);
  for (char** variable = environ; *variable; ++variable) {
    const std::string assignment = *variable, name = assignment.substr(0, assignment.find('=') + 1);
    const bool isSet = std::any_of(own.begin(), own.end(),
                                   [&](const std::string& other) { return other.compare(0, name.size(), name) == 0; });
    if (!isSet) own.push_back(assignment);
  }
  return own;
}

}  // namespace

static Status startHere(const BenchOptions& options, const RanksHere& ranks, Fleet* fleet) {
  for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
    hycrun::RankCommand command;
    command.arguments = {hycrun::absolutePath("/proc/self/exe"), kRankFlag};
    for (std::string& argument : argumentsForRanks(options)) command.arguments.push_back(std::move(argument));
    command.environment = environmentFor(options, ranks, rank);
    command.signals = hycrun::currentSignals();
    HYCRT_RETURN_IF_ERROR(fleet->add(command, "rank " + std::to_string(rank)));
  }
  return fleet->run();
}

Status runHere(const BenchOptions& options, const RanksHere& ranks, const TakeLine& take) {
  Fleet fleet(take, /*endsWithInput=*/false);
  return startHere(options, ranks, &fleet);
}

Status runOnDevice(const BenchOptions& options, const TakeLine& take) {
  const std::string self = hycrun::absolutePath("/proc/self/exe");
  hycrun::RankCommand command;
  command.arguments = {self.substr(0, self.rfind('/') + 1) + kDeviceProgram};
  if (access(command.arguments[0].c_str(), X_OK) != 0) {
    return hycrt::unavailableError("--target cuda: there is no '" + command.arguments[0] +
                                   "', since this hyc-bench was built without the CUDA toolkit");
  }
  for (std::string& argument : argumentsForDevice(options)) command.arguments.push_back(std::move(argument));
  for (char** variable = environ; *variable; ++variable) command.environment.emplace_back(*variable);
  command.signals = hycrun::currentSignals();
  Fleet fleet(take, /*endsWithInput=*/false);
  HYCRT_RETURN_IF_ERROR(fleet.add(command, "GPU"));
  return fleet.run();
}

Status runOnHosts(const BenchOptions& options, const std::vector<hycrun::Host>& hosts, const TakeLine& take) {
  const std::string runName = hycrt::makeName(), token = hycrt::makeToken();
  if (token.empty()) return hycrt::unavailableError("several hosts need a token, and this hyc-bench has no OpenSSL");
  const int each = static_cast<int>(hosts[0].slots.size());
  Fleet fleet(take, /*endsWithInput=*/false);
  int first = 0;
  for (const hycrun::Host& host : hosts) {
    hycrun::AgentTask task;
    task.token = token;
    task.runName = runName;
    task.masterAddress = hosts[0].name;
    task.masterPort = hycrun::portFor(runName);
    task.first = first;
    task.count = each;
    task.arguments = argumentsForRanks(options);
    task.arguments.push_back(std::to_string(each * static_cast<int>(hosts.size())));
    const Result<std::string> input = encodeTask(task);
    if (!input.ok()) return input.status();
    HYCRT_RETURN_IF_ERROR(
        fleet.add(hycrun::commandOn(host.name, options.sshPort, hycrun::kAgentFlag, *input, hycrun::currentSignals()),
                  "host '" + host.name + "'"));
    first += each;
  }
  return fleet.run();
}

Status runAsAgent() {
  Result<hycrun::AgentTask> task = hycrun::receiveTask(STDIN_FILENO);
  if (!task.ok()) return hycrt::usageError("--agent is for hyc-bench itself, which starts it on other hosts");
  RanksHere ranks{task->first, task->count, 0, task->runName, task->token, task->masterAddress, task->masterPort};
  if (!task->arguments.empty()) {
    ranks.world = std::atoi(task->arguments.back().c_str());
    task->arguments.pop_back();
  }
  const Result<BenchOptions> options = optionsOfRank(task->arguments);
  if (!options.ok()) return options.status();
  if (ranks.count < 1 || ranks.first < 0 || ranks.first > ranks.world - ranks.count) {
    return hycrt::usageError("--agent is given a task without ranks; start the same hyc-bench on all hosts");
  }
  Fleet fleet(
      [](const std::string& line) {
        std::printf("%s\n", line.c_str());
        std::fflush(stdout);
        return Status();
      },
      /*endsWithInput=*/true);
  return startHere(*options, ranks, &fleet);
}

}  // namespace hycbench
