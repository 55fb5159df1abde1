// Starting ranks, forwarding their lines, and the end of all when one ends badly.
#include "launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "agent.h"
#include "hycrt/printable.h"
#include "hycrt/token.h"

extern char** environ;

namespace hycrun {
namespace {

using hycrt::Result;
using hycrt::Status;

constexpr int kPollMs = 500;
constexpr int kGraceMs = 1000, kGracePollMs = 5;  // from SIGTERM to SIGKILL

bool sets(const std::string& assignment, const std::vector<std::string>& assignments) {
  const std::string name = assignment.substr(0, assignment.find('=') + 1);
  return std::any_of(assignments.begin(), assignments.end(),
                     [&](const std::string& other) { return other.compare(0, name.size(), name) == 0; });
}

std::string signalText(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace

Launcher::Launcher(const hycrt::Manifest& manifest, const hycrt::RunOptions& options, std::string runName,
                   const HostTask* task)
    : task_(task),
      first_(task ? task->first : 0),
      count_(task ? task->count : static_cast<int>(manifest.ranks.size())),
      manifest_(manifest),
      options_(options),
      display_(stdout),
      runName_(std::move(runName)),
      token_(task ? task->token : hycrt::makeToken()) {
  sigemptyset(&formerSignals_);
}

Launcher::~Launcher() {
  for (size_t rank : endAll(ranks_)) ranks_[rank].abandon();
  ranks_.clear();
  closeAndForget(&recordRead_);
  closeAndForget(&recordWrite_);
  closeAndForget(&signalFd_);
}

Result<int> Launcher::run() {
  HYCRT_RETURN_IF_ERROR(prepare());
  HYCRT_RETURN_IF_ERROR(checkProgram());
  if (exitStatus_ != 0) return exitStatus_;
  HYCRT_RETURN_IF_ERROR(startRanks());
  while (anyRunning()) watch();
  for (size_t rank = 0; rank < ranks_.size(); ++rank) passOn(static_cast<int>(rank));
  takeRecords();
  if (exitStatus_ == 0 && !task_) HYCRT_RETURN_IF_ERROR(reportMemory());
  return exitStatus_;
}

// A table on the terminal, and what was asked for into a file.
Status Launcher::reportMemory() {
  std::sort(memory_.begin(), memory_.end(),
            [](const hycrt::MemoryRecord& a, const hycrt::MemoryRecord& b) { return a.rank < b.rank; });
  display_.clear();
  std::fputs(hycrt::toTable(memory_).c_str(), stdout);
  if (options_.measureMemory.empty()) return {};
  return hycrt::writeMemoryRecords(memory_, options_.measureMemory, runName_);
}

// Signals are read from a descriptor, so that nothing here runs inside a handler.
Status Launcher::prepare() {
  if (!options_.logFile.empty()) {
    Result<std::unique_ptr<hycrt::StepLog>> log = hycrt::StepLog::open(options_.logFile);
    if (!log.ok()) return log.status();
    log_ = std::move(*log);
  }
  std::signal(SIGCHLD, SIG_DFL);  // where it was inherited as ignored, ends could not be waited for
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &formerSignals_);
  signalFd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signalFd_ < 0) return hycrt::errnoError("cannot wait for signals", errno);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return hycrt::errnoError("cannot make a pipe", errno);
  recordRead_ = ends[0];
  recordWrite_ = ends[1];
  fcntl(recordRead_, F_SETFL, O_NONBLOCK);
  return {};
}

std::vector<std::string> Launcher::argumentsFor(int rank) const {
  std::vector<std::string> arguments{manifest_.folder + "/" + manifest_.ranks[static_cast<size_t>(rank)].program};
  arguments.push_back("--out=" + manifest_.folder);
  for (std::string& argument : hycrt::argumentsForRanks(options_)) arguments.push_back(std::move(argument));
  return arguments;
}

std::vector<std::string> Launcher::environmentFor(int rank) const {
  const int ranks = static_cast<int>(manifest_.ranks.size());
  std::vector<std::string> own{"RANK=" + std::to_string(rank),
                               "WORLD_SIZE=" + std::to_string(ranks),
                               "LOCAL_RANK=" + std::to_string(rank - first_),
                               "LOCAL_WORLD_SIZE=" + std::to_string(count_),
                               "HYC_RENDEZVOUS=" + runName_,
                               "HYC_TOKEN=" + token_,
                               "HYC_TOKEN_FILE=",
                               "HYC_RECORD_FD=" + std::to_string(recordWrite_)};
  if (task_) {
    own.push_back("MASTER_ADDR=" + task_->masterAddress);
    own.push_back("MASTER_PORT=" + std::to_string(task_->masterPort));
  }
  const hycrt::Surroundings surroundings{task_ ? 2 : 1, count_, ranks};
  const int threads = hycrt::threadsPerRank(options_, manifest_.threads, surroundings);
  // Threads that spin for their next task would take the cores from ranks that have work.
  if (threads * count_ > hycrt::defaultThreads(1) && !std::getenv("OMP_WAIT_POLICY")) {
    own.push_back("OMP_WAIT_POLICY=passive");
  }
  for (char** variable = environ; *variable; ++variable) {
    if (!sets(*variable, own)) own.push_back(*variable);
  }
  return own;
}

RankCommand Launcher::commandFor(int rank) const {
  RankCommand command;
  command.arguments = argumentsFor(rank);
  command.environment = environmentFor(rank);
  command.recordFd = recordWrite_;
  command.signals = formerSignals_;
  return command;
}

// A manifest may ask for ranks by the hundred that its programs were not compiled for: one says so.
Status Launcher::checkProgram() {
  if (manifest_.ranks.size() == 1) return {};
  RankCommand command = commandFor(first_);
  command.recordFd = -1;
  command.environment.push_back("HYC_CHECK_ONLY=1");
  Result<RankProcess> process = RankProcess::start(command);
  if (!process.ok()) return process.status();
  ranks_.push_back(std::move(*process));
  while (anyRunning()) watch();
  passOn(0);
  ranks_.clear();
  return {};
}

Status Launcher::startRanks() {
  for (int rank = first_; rank < first_ + count_; ++rank) {
    Result<RankProcess> process = RankProcess::start(commandFor(rank));
    if (!process.ok()) return process.status();
    ranks_.push_back(std::move(*process));
  }
  closeAndForget(&recordWrite_);
  return {};
}

void Launcher::watch() {
  std::vector<pollfd> polled{{signalFd_, POLLIN, 0}, {recordRead_, POLLIN, 0}, {task_ ? STDIN_FILENO : -1, POLLIN, 0}};
  for (const RankProcess& rank : ranks_) {
    polled.push_back({rank.outputFd, POLLIN, 0});  // closed ones are -1, which poll leaves alone
    polled.push_back({rank.errorFd, POLLIN, 0});
  }
  poll(polled.data(), polled.size(), kPollMs);
  takeSignals();
  lookAtInput();
  takeRecords();
  // What a rank has said comes before what is said about it.
  for (size_t rank = 0; rank < ranks_.size(); ++rank) passOn(static_cast<int>(rank));
  if (!stopping_) lookForEnds();
}

void Launcher::passOn(int rank) {
  RankProcess& process = ranks_[static_cast<size_t>(rank)];
  const auto take = [&](int* fd, LineReader& reader, FILE* to) {
    if (*fd < 0) return;
    std::vector<std::string> lines;
    if (!reader.read(*fd, &lines)) closeAndForget(fd);
    if (stopping_ && rank != failedRank_) return;
    for (const std::string& line : lines) {
      display_.clear();
      std::fprintf(to, "rank %d: %s\n", first_ + rank, hycrt::printable(line).c_str());
    }
    if (!lines.empty()) std::fflush(to);
  };
  take(&process.outputFd, process.output, stdout);
  take(&process.errorFd, process.errors, stderr);
}

void Launcher::takeRecords() {
  if (recordRead_ < 0) return;
  std::vector<std::string> lines;
  if (!records_.read(recordRead_, &lines)) closeAndForget(&recordRead_);
  for (const std::string& line : lines) {
    if (task_) {
      std::fprintf(stdout, "%c%s\n", kRecordMark, line.c_str());
      std::fflush(stdout);
      continue;
    }
    if (line.compare(0, 9, "{\"memory\"") == 0) {
      if (Result<hycrt::MemoryRecord> record = hycrt::parseMemoryRecord(line); record.ok()) memory_.push_back(*record);
      continue;
    }
    Result<hycrt::StepRecord> record = hycrt::parseStepRecord(line);
    if (!record.ok()) continue;  // a line that the end of rank 0 cut off
    display_.show(*record);
    Status status = log_ ? log_->append(*record) : Status();
    if (status.ok() || stopping_) continue;
    display_.clear();
    std::fprintf(stderr, "hyc-run: error: %s\n", status.message().c_str());
    exitStatus_ = status.exitCode();
    stopAll();
  }
}

void Launcher::takeSignals() {
  signalfd_siginfo info;
  while (read(signalFd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD || stopping_) continue;
    display_.clear();
    std::fprintf(stderr, "hyc-run: stopped by %s; all ranks were ended\n", signalText(signal).c_str());
    exitStatus_ = 128 + signal;
    stopAll();
  }
}

// It ends with the hyc-run that has started this one.
void Launcher::lookAtInput() {
  char byte;
  pollfd input{task_ && !stopping_ ? STDIN_FILENO : -1, POLLIN, 0};
  if (poll(&input, 1, 0) <= 0 || read(STDIN_FILENO, &byte, 1) > 0) return;
  exitStatus_ = 128 + SIGHUP;
  stopAll();
}

// Of several that have ended since the last look, one that only lost its peer is not the one to blame.
void Launcher::lookForEnds() {
  int failed = -1;
  RankEnd failure;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    RankEnd end;
    if (!ranks_[rank].isRunning() || !ranks_[rank].pollEnd(&end) || !end.failed()) continue;
    const bool consequence = failure.exitStatus == static_cast<int>(hycrt::StatusCode::kPeerLost);
    if (failed < 0 || consequence) {
      failed = static_cast<int>(rank);
      failure = end;
    }
  }
  if (failed >= 0) reportFailure(failed, failure);
}

void Launcher::reportFailure(int rank, const RankEnd& end) {
  failedRank_ = rank;
  exitStatus_ = end.asExitStatus();
  stopAll();
  passOn(rank);
  const hycrt::ManifestRank& row = manifest_.ranks[static_cast<size_t>(first_ + rank)];
  const std::string how = end.signal != 0 ? "was ended by " + signalText(end.signal)
                                          : "ended with status " + std::to_string(end.exitStatus);
  display_.clear();
  std::fprintf(stderr, "hyc-run: rank %d (%s, program %s) %s%s\n", first_ + rank,
               describe(manifest_.mesh, row.at).c_str(), row.program.c_str(), how.c_str(),
               manifest_.ranks.size() > 1 ? "; the other ranks were ended" : "");
}

// Asked first, so that what is not hycrt's in a rank may clean up, and made to after a while.
void Launcher::stopAll() {
  stopping_ = true;
  for (const RankProcess& rank : ranks_) rank.askToEnd();
  for (int waited = 0; anyRunning() && waited < kGraceMs; waited += kGracePollMs) {
    RankEnd ignored;
    for (RankProcess& rank : ranks_) {
      if (rank.isRunning()) rank.pollEnd(&ignored);
    }
    if (anyRunning()) poll(nullptr, 0, kGracePollMs);
  }
  for (size_t rank : endAll(ranks_)) {
    display_.clear();
    std::fprintf(stderr,
                 "hyc-run: rank %zu (%s) does not end, even by SIGKILL: a disk, a network file system or a debugger "
                 "holds it\n",
                 static_cast<size_t>(first_) + rank, ranks_[rank].abandon().c_str());
  }
}

bool Launcher::anyRunning() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.isRunning(); });
}

}  // namespace hycrun
