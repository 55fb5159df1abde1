// Starting ranks, forwarding their lines, and the end of all when one ends badly.
#include "launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "agent.h"
#include "base/threads.h"
#include "hycrt/printable.h"
#include "hycrt/run.h"
#include "hycrt/token.h"
#include "user_signal.h"

extern char** environ;

namespace hycrun {
namespace {

using hycrt::Result;
using hycrt::Status;

constexpr int kPollMs = 500;
constexpr int kGraceMs = 1000;  // from SIGINT to SIGKILL

bool sets(const std::string& assignment, const std::vector<std::string>& assignments) {
  const std::string name = assignment.substr(0, assignment.find('=') + 1);
  return std::any_of(assignments.begin(), assignments.end(),
                     [&](const std::string& other) { return other.compare(0, name.size(), name) == 0; });
}

}  // namespace

Launcher::Launcher(const hycrt::Manifest& manifest, const hycrt::RunOptions& options, std::string runName,
                   Signals& signals, Report& report, const HostTask* task, Replanner* replanner)
    : task_(task),
      replanner_(replanner),
      first_(task ? task->first : 0),
      count_(task ? task->count : static_cast<int>(manifest.ranks.size())),
      manifest_(manifest),
      options_(options),
      signals_(signals),
      report_(report),
      runName_(std::move(runName)),
      token_(task ? task->token : hycrt::makeToken()) {}

Launcher::~Launcher() {
  for (size_t rank : endAll(ranks_)) ranks_[rank].abandon();
  ranks_.clear();
  closeAndForget(&recordRead_);
  closeAndForget(&recordWrite_);
}

Result<RunEnd> Launcher::run() {
  HYCRT_RETURN_IF_ERROR(prepare());
  HYCRT_RETURN_IF_ERROR(checkProgram());
  if (end_.status != 0) return end_;
  HYCRT_RETURN_IF_ERROR(startRanks());
  while (anyRunning()) watch();
  for (size_t rank = 0; rank < ranks_.size(); ++rank) passOn(static_cast<int>(rank));
  takeRecords();
  if (end_.status == 0 && endsEarly_) {
    end_ = {kPeerLost, report_.endsForLayout() ? RunEnd::How::kForLayout : RunEnd::How::kAsked, ""};
  }
  return end_;
}

Status Launcher::prepare() {
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
    own.push_back("HYC_COPIES=" + task_->copies.socket);
    own.push_back("HYC_COPY_RESUME=" + task_->copies.resume);
    own.push_back("HYC_COPY_START=" + std::to_string(task_->copies.start));
  }
  const hycrt::Surroundings surroundings{task_ ? 2 : 1, count_, ranks};
  const int threads = hycrt::threadsPerRank(options_, manifest_.threads, surroundings);
  for (const std::string& variable : hycrt::waitVariables(threads * count_)) own.push_back(variable);
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
  command.signals = signals_.former();
  return command;
}

// A manifest may ask for ranks by the hundred that its programs were not compiled for: one says so.
Status Launcher::checkProgram() {
  HYCRT_RETURN_IF_ERROR(hycrt::checkCpu(manifest_));
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
  std::vector<pollfd> polled{
      {signals_.fd(), POLLIN, 0}, {recordRead_, POLLIN, 0}, {task_ ? STDIN_FILENO : -1, POLLIN, 0}};
  for (const RankProcess& rank : ranks_) {
    polled.push_back({rank.outputFd, POLLIN, 0});  // closed ones are -1, which poll leaves alone
    polled.push_back({rank.errorFd, POLLIN, 0});
  }
  if (replanner_) replanner_->addPolled(&polled);
  poll(polled.data(), polled.size(), kPollMs);
  takeSignals();
  lookAtInput();
  takeRecords();
  // What a rank has said comes before what is said about it.
  for (size_t rank = 0; rank < ranks_.size(); ++rank) passOn(static_cast<int>(rank));
  if (!stopping_) lookForLayout();
  if (!stopping_) lookForEnds();
}

void Launcher::lookForLayout() {
  if (!replanner_) return;
  replanner_->advance();
  if (!replanner_->isReady() || asksForLayout_ || isAsked_ || !report_.hasStepped()) return;
  asksForLayout_ = true;
  report_.say("the programs of the other layout are there: a checkpoint is written after this step");
  for (const RankProcess& rank : ranks_) rank.send(hycrt::relayoutSignal());
}

void Launcher::passOn(int rank) {
  RankProcess& process = ranks_[static_cast<size_t>(rank)];
  const auto take = [&](int* fd, LineReader& reader, FILE* to) {
    if (*fd < 0) return;
    std::vector<std::string> lines;
    if (!reader.read(*fd, &lines)) closeAndForget(fd);
    if (stopping_ && rank != failedRank_) return;
    for (const std::string& line : lines) {
      report_.clear();
      report_.print(to, "rank " + std::to_string(first_ + rank) + ": " + hycrt::printable(line) + "\n");
    }
  };
  take(&process.outputFd, process.output, stdout);
  take(&process.errorFd, process.errors, stderr);
}

void Launcher::takeRecords() {
  if (recordRead_ < 0) return;
  std::vector<std::string> lines;
  if (!records_.read(recordRead_, &lines)) closeAndForget(&recordRead_);
  for (const std::string& line : lines) {
    const hycrt::Result<hycrt::RunEvent> event =
        hycrt::isRunEvent(line) ? hycrt::parseRunEvent(line) : hycrt::dataError("a step's record");
    endsEarly_ |= event.ok() && event->kind == hycrt::RunEvent::Kind::kEnd;
    if (task_) {
      report_.print(stdout, kRecordMark + line + "\n");
      continue;
    }
    const Status status = report_.take(line);
    if (status.ok() || stopping_) continue;
    report_.say("error: " + status.message());
    end_ = {status.exitCode(), RunEnd::How::kFailed, status.message()};
    killAll();
  }
}

void Launcher::takeSignals() {
  while (const int signal = signals_.take()) {
    if (signal == SIGCHLD || stopping_) continue;
    pass(signal);
  }
}

// What asks for a checkpoint goes to all ranks, of which one would be enough.
void Launcher::pass(int signal) {
  // Whoever ends all processes of a job sends it here, too; a second one of the user's ends the other hyc-run.
  if (task_ && signal == SIGTERM && isAsked_) return;
  const SignalEffect effect = effectOf(signal, !options_.checkpoint.empty(), isAsked_);
  const bool isSaidElsewhere = task_ && effect.kind != SignalEffect::Kind::kNothing;
  if (!effect.words.empty() && !isSaidElsewhere) report_.say(effect.words);
  switch (effect.kind) {
    case SignalEffect::Kind::kNothing:
      return;
    case SignalEffect::Kind::kEnds:
      end_ = {128 + signal, RunEnd::How::kAsked, Signals::nameOf(signal)};
      return stopAll();
    case SignalEffect::Kind::kSavesAndEnds:
      isAsked_ = true;
      break;
    case SignalEffect::Kind::kSaves:
    case SignalEffect::Kind::kTellsWhere:
      break;
  }
  for (const RankProcess& rank : ranks_) rank.send(signal);
}

// It ends with the hyc-run that has started this one, which passes signals on by a letter each.
void Launcher::lookAtInput() {
  pollfd input{task_ && !stopping_ ? STDIN_FILENO : -1, POLLIN, 0};
  while (!stopping_ && poll(&input, 1, 0) > 0) {
    char letter = 0;
    const ssize_t count = read(STDIN_FILENO, &letter, 1);
    if (count > 0 && letter == kCheckpointLetter) pass(SIGUSR2);
    if (count > 0 && letter == kEndLetter) pass(SIGTERM);
    if (count > 0 && letter == kWhereLetter) pass(SIGUSR1);
    if (count > 0 || (count < 0 && errno == EINTR)) continue;
    end_ = {128 + SIGHUP, RunEnd::How::kAsked, "its hyc-run is gone"};
    stopAll();
  }
}

// Of several that have ended since the last look, one that only lost its peer is not the one to blame.
void Launcher::lookForEnds() {
  int failed = -1;
  RankEnd failure;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    RankEnd end;
    if (!ranks_[rank].isRunning() || !ranks_[rank].pollEnd(&end) || !end.failed()) continue;
    takeRecords();  // before its end it may have told of it
    if (endsEarly_ && end.exitStatus == kPeerLost) continue;
    const bool consequence = failure.exitStatus == kPeerLost;
    if (failed < 0 || consequence) {
      failed = static_cast<int>(rank);
      failure = end;
    }
  }
  if (failed < 0) return;
  if (!isAsWished(failure)) return reportFailure(failed, failure);
  // Asked to end before they could save anything, ranks end by the signal, and others lose them.
  if (!task_) report_.say("stopped by SIGTERM before the first step, with nothing to save");
  end_ = {kPeerLost, RunEnd::How::kAsked, "SIGTERM"};
  stopAll();
}

bool Launcher::isAsWished(const RankEnd& end) const {
  return isAsked_ && !endsEarly_ && (end.signal == SIGTERM || end.exitStatus == kPeerLost);
}

void Launcher::reportFailure(int rank, const RankEnd& end) {
  failedRank_ = rank;
  const hycrt::ManifestRank& row = manifest_.ranks[static_cast<size_t>(first_ + rank)];
  const std::string number = "rank " + std::to_string(first_ + rank),
                    how = end.signal != 0 ? " was ended by " + Signals::nameOf(end.signal)
                                          : " ended with status " + std::to_string(end.exitStatus);
  const std::string& told = report_.failure();
  end_ = {end.asExitStatus(), isAsked_ ? RunEnd::How::kAsked : RunEnd::How::kFailed,
          told.empty() ? number + how : told};
  stopAll();
  passOn(rank);
  report_.say(number + " (" + describe(manifest_.mesh, row.at) + ", program " + row.program + ")" + how +
              (manifest_.ranks.size() > 1 ? "; the other ranks were ended" : ""));
  if (!task_) return;
  const hycrt::RunEvent failure{hycrt::RunEvent::Kind::kFailure, 0, end_.cause, 0, ""};
  report_.print(stdout, kRecordMark + toJson(failure) + "\n");
}

// Asked first, so that what is not hycrt's in a rank may clean up, and made to after a while. Not by SIGTERM, at which
// ranks write a checkpoint.
void Launcher::stopAll() {
  stopping_ = true;
  for (const RankProcess& rank : ranks_) rank.send(SIGINT);
  waitForEnds(kGraceMs, [&] {
    RankEnd ignored;
    for (RankProcess& rank : ranks_) {
      if (rank.isRunning()) rank.pollEnd(&ignored);
    }
    return !anyRunning();
  });
  reapAll();
}

// Without a word, to which ranks would answer with a checkpoint of steps that could not be told.
void Launcher::killAll() {
  stopping_ = true;
  for (const RankProcess& rank : ranks_) rank.send(SIGKILL);
  reapAll();
}

void Launcher::reapAll() {
  for (size_t rank : endAll(ranks_)) {
    report_.say("rank " + std::to_string(static_cast<size_t>(first_) + rank) + " (" + ranks_[rank].abandon() +
                ") does not end, even by SIGKILL: a disk, a network file system or a debugger holds it");
  }
}

bool Launcher::anyRunning() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.isRunning(); });
}

}  // namespace hycrun
