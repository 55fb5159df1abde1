// Starts, failures and restarts.
#include "job.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>

#include "base/clock.h"
#include "copy_hosts.h"
#include "host_launcher.h"
#include "hycrt/exchange_record.h"
#include "hycrt/printable.h"
#include "hycrt/resume.h"
#include "hycrt/run.h"
#include "hycrt/saved_weights.h"
#include "hycrt/token.h"
#include "launcher.h"
#include "replanner.h"
#include "sizes.h"

namespace hycrun {
namespace {

using hycrt::Result;
using hycrt::RunEvent;
using hycrt::Status;
using hycrt::StatusCode;

constexpr int kMostFailures = 2;  // of a host
constexpr int64_t kFirstPauseMs = 500, kLongestPauseMs = 60000;

double secondsSince(int64_t beginNs) { return static_cast<double>(hycrt::monotonicNs() - beginNs) * 1e-9; }

}  // namespace

namespace {

constexpr int kEndSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool isEnd(int signal) {
  return std::find(std::begin(kEndSignals), std::end(kEndSignals), signal) != std::end(kEndSignals);
}

// Whoever has started hyc-run in the background may have said that it outlives a terminal (nohup) or is not meant by a
// Ctrl-C (a shell's '&'). Blocked signals arrive by the descriptor even where they are ignored.
bool isIgnored(int signal) {
  struct sigaction action{};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals() {
  sigemptyset(&former_);
  sigemptyset(&taken_);
}

// Whoever still prints may be ended from now on; what came while the run ended has done so. Questions are over.
Signals::~Signals() {
  if (fd_ < 0) return;
  while (take() != 0) continue;
  close(fd_);
  sigset_t kept = former_;
  for (int signal : {SIGPIPE, SIGUSR1, SIGUSR2}) sigaddset(&kept, signal);  // of a closed pipe a write says more
  sigprocmask(SIG_SETMASK, &kept, nullptr);
}

Status Signals::open() {
  std::signal(SIGCHLD, SIG_DFL);  // where it was inherited as ignored, ends could not be waited for
  for (int signal : {SIGCHLD, SIGTERM, SIGUSR1, SIGUSR2}) sigaddset(&taken_, signal);
  for (int signal : {SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) {
    if (!isIgnored(signal)) sigaddset(&taken_, signal);
  }
  sigprocmask(SIG_BLOCK, &taken_, &former_);
  fd_ = signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK);
  return fd_ < 0 ? hycrt::errnoError("cannot wait for signals", errno) : Status();
}

int Signals::take() const {
  signalfd_siginfo info;
  if (read(fd_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return 0;
  const int signal = static_cast<int>(info.ssi_signo);
  hasTakenEnd_ |= isEnd(signal);
  return signal;
}

bool Signals::isEndPending() const {
  sigset_t pending;
  sigpending(&pending);
  return std::any_of(std::begin(kEndSignals), std::end(kEndSignals), [&](int signal) {
    return sigismember(&taken_, signal) == 1 && sigismember(&pending, signal) == 1;
  });
}

std::string Signals::nameOf(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

void Signals::forgetBrokenPipe() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  const timespec atOnce{};
  sigtimedwait(&pipe, nullptr, &atOnce);
}

Report::Report(const hycrt::RunOptions& options, const Signals& signals)
    : options_(options),
      output_(signals),
      isOnTerminal_(isatty(STDOUT_FILENO) == 1),
      display_(stdout),
      lastProgressNs_(hycrt::monotonicNs()),
      beginNs_(hycrt::monotonicNs()) {}

Report::~Report() {
  if (!output_.takes(stdout)) display_.leaveOut();
}

Status Report::open() {
  Result<std::unique_ptr<hycrt::Instruments>> instruments = hycrt::Instruments::open(options_);
  if (!instruments.ok()) return instruments.status();
  instruments_ = std::move(*instruments);
  if (!instruments_->url().empty()) say("metrics: " + instruments_->url());
  return {};
}

Status Report::take(const std::string& line) {
  if (hycrt::isRunRecord(line)) return instruments_ ? instruments_->log(line) : Status();
  if (hycrt::isRunEvent(line)) {
    const Result<RunEvent> event = hycrt::parseRunEvent(line);
    return event.ok() ? add(*event) : Status();
  }
  if (line.compare(0, 9, "{\"memory\"") == 0) {
    if (Result<hycrt::MemoryRecord> record = hycrt::parseMemoryRecord(line); record.ok()) memory_.push_back(*record);
    return {};
  }
  if (hycrt::isExchangeRecord(line)) {
    const Result<hycrt::ExchangeRecord> record = hycrt::parseExchangeRecord(line);
    return record.ok() && instruments_ ? instruments_->exchange(*record) : Status();
  }
  const Result<hycrt::StepRecord> record = hycrt::parseStepRecord(line);
  if (!record.ok()) return {};  // a line that the end of rank 0 cut off
  if (!hasStepped_ && isRestart_) account_.addStart(secondsSince(startNs_) - record->milliseconds / 1e3);
  hasStepped_ = true;
  lastProgressNs_ = hycrt::monotonicNs();
  lastStep_ = std::max(lastStep_, record->step);
  account_.add(*record);
  if (output_.takes(stdout)) display_.show(*record);
  return instruments_ ? instruments_->step(*record) : Status();
}

Status Report::add(const RunEvent& event) {
  if (event.kind == RunEvent::Kind::kFailure) {
    // How a rank ended that has waited for another says less.
    if (blamedRank_ < 0) {
      failure_ = event.cause;
      blamedRank_ = event.rank;
    }
    return {};
  }
  // Every rank tells of its end.
  if (event.kind == RunEvent::Kind::kEnd && endsEarly_) return {};
  endsEarly_ |= event.kind == RunEvent::Kind::kEnd;
  endsForLayout_ |= event.kind == RunEvent::Kind::kEnd && event.cause == hycrt::kAnotherLayout;
  if (event.kind == RunEvent::Kind::kMeasure) measurement_ = event.path;
  lastProgressNs_ = hycrt::monotonicNs();
  account_.add(event);
  return instruments_ ? instruments_->happened(event) : Status();
}

// Elsewhere nothing is drawn that would have to go.
void Report::clear() {
  if (isOnTerminal_ && output_.takes(stdout)) display_.clear();
}

void Report::say(const std::string& line) {
  clear();
  print(stderr, "hyc-run: " + hycrt::printable(line) + "\n");
}

void Report::beginStart(bool isRestart) {
  memory_.clear();
  endsEarly_ = endsForLayout_ = hasStepped_ = false;
  isRestart_ = isRestart;
  failure_.clear();
  blamedRank_ = -1;
  startNs_ = lastProgressNs_ = hycrt::monotonicNs();
}

double Report::secondsSinceProgress() const { return secondsSince(lastProgressNs_); }
double Report::secondsInAll() const { return secondsSince(beginNs_); }

Status Report::finishMemory(const std::string& runName) {
  std::sort(memory_.begin(), memory_.end(),
            [](const hycrt::MemoryRecord& a, const hycrt::MemoryRecord& b) { return a.rank < b.rank; });
  clear();
  print(stdout, hycrt::toTable(memory_));
  return options_.measureMemory.empty() ? Status()
                                        : hycrt::writeMemoryRecords(memory_, options_.measureMemory, runName);
}

Status Report::finish() {
  if (options_.checkpoint.empty() && options_.resume.empty() && options_.copy == hycrt::CopyPlace::kNone) return {};
  clear();
  print(stdout, account_.toLine(secondsInAll()) + "\n");
  return instruments_ ? instruments_->report(account_.toJson(secondsInAll())) : Status();
}

namespace {

class Job {
 public:
  Job(hycrt::Manifest manifest, hycrt::RunOptions options, std::vector<hycrt::CompiledSize> sizes)
      : manifest_(std::move(manifest)),
        sizes_(std::move(sizes)),
        given_(options),
        options_(std::move(options)),
        report_(given_, signals_) {}

  Result<int> run() {
    HYCRT_RETURN_IF_ERROR(hycrt::takeResume(&options_, hycrt::CheckpointCheck::kBytes, noteTo(report_)));
    const hycrt::OwnCheckpoints own(options_);
    if (const std::string warning = own.warning(options_); !warning.empty()) noteTo(report_)(warning);
    resumeGiven_ = options_.resume;
    HYCRT_RETURN_IF_ERROR(checkCopies());
    HYCRT_RETURN_IF_ERROR(signals_.open());
    HYCRT_RETURN_IF_ERROR(report_.open());
    if (given_.copy != hycrt::CopyPlace::kNone) copies_ = std::make_unique<CopyHosts>(given_, signals_, report_);
    if (given_.replanAfter > 0) replanner_ = std::make_unique<Replanner>(given_, manifest_, signals_, report_);
    int64_t restarts = 0;
    for (bool isRestart = false;; isRestart = true) {
      Result<RunEnd> end = start(isRestart);
      if (!end.ok()) return end.status();
      Result<int> status = 0;
      if (end->how == RunEnd::How::kForLayout) {
        status = changeLayout(own);
      } else if (end->how == RunEnd::How::kFailed && mayStartAgain(*end, restarts)) {
        status = startAgain(own, *end, ++restarts);
      } else {
        return finish(end->status);
      }
      if (!status.ok()) return status.status();
      if (*status != 0) return finish(*status);
    }
  }

 private:
  static std::function<void(const std::string&)> noteTo(Report& report) {
    return [&report](const std::string& line) { report.say(line); };
  }

  // A copy is of use where there are another host and another start.
  Status checkCopies() const {
    const bool copies = given_.copy != hycrt::CopyPlace::kNone;
    if (!copies && given_.copyEvery == 1) return {};
    if (!copies) return hycrt::usageError("--copy-every is given without copies; give it with --copy neighbour");
    if (given_.copyEvery == 0) return hycrt::usageError("--copy-every is 0, expected a number of steps");
    if (given_.hostfile.empty()) {
      return hycrt::usageError(
          "--copy neighbour keeps copies in the memory of other hosts, and there is one host; name more with "
          "--hostfile FILE, or leave it out");
    }
    if (given_.maxRestarts == 0) {
      return hycrt::usageError(
          "--copy neighbour is given without restarts, which alone use copies; give --max-restarts N");
    }
    const Result<size_t> hosts = hostsWithRanks();
    if (!hosts.ok()) return hosts.status();
    if (*hosts > 1) return {};
    return hycrt::usageError(
        "--copy neighbour needs two hosts, and all ranks stand on one; name more hosts, or leave it out");
  }

  Result<size_t> hostsWithRanks() const {
    const Result<std::vector<Host>> hosts = hostsOf(given_, leftOut_);
    if (!hosts.ok()) return hosts.status();
    const Result<std::vector<Share>> shares = shareRanks(*hosts, static_cast<int>(manifest_.ranks.size()));
    return shares.ok() ? Result<size_t>(shares->size()) : Result<size_t>(shares.status());
  }

  Result<int> finish(int status) {
    if (replanner_ && status == 0) replanner_->finish();
    replanner_.reset();
    if (copies_ && given_.maxRestarts > 0) {
      if (const std::string held = copies_->mostHeld(); !held.empty())
        report_.say("copies in memory took at most: " + held);
    }
    copies_.reset();
    const Status told = report_.finish();
    return told.ok() || status != 0 ? Result<int>(status) : Result<int>(told);
  }

  Result<RunEnd> start(bool isRestart) {
    const std::string runName = "hyc-" + hycrt::makeName();
    report_.beginStart(isRestart);
    if (replanner_ && replanner_->hasMeasured()) {
      options_.replanAfter = 0;
      options_.profile.clear();
    }
    if (copies_) {
      copies_->beginStart(copy_);
      const Result<size_t> hosts = hostsWithRanks();
      const bool canCopy = hosts.ok() && *hosts > 1;
      if (!canCopy) report_.say("no copies are kept in memory from now on: all ranks stand on one host");
      options_.copy = canCopy ? given_.copy : hycrt::CopyPlace::kNone;
    }
    Result<RunEnd> end =
        options_.hostfile.empty()
            ? Launcher(manifest_, options_, runName, signals_, report_, nullptr, replanner_.get()).run()
            : HostLauncher(manifest_, options_, runName, signals_, report_, leftOut_, copies_.get(), replanner_.get())
                  .run();
    if (end.ok() && end->status == 0) {
      HYCRT_RETURN_IF_ERROR(report_.finishMemory(runName));
      return end;
    }
    hycrt::removePartialOutputs(options_, runName);
    hycrt::removePartialCheckpoints(options_);
    return end;
  }

  // What would come again does: a wrong command line, wrong data, a program that contradicts itself.
  bool mayStartAgain(const RunEnd& end, int64_t restarts) {
    if (options_.maxRestarts == 0) return false;
    for (StatusCode code : {StatusCode::kUsage, StatusCode::kData, StatusCode::kInternal}) {
      if (end.status == static_cast<int>(code)) return false;
    }
    if (restarts < options_.maxRestarts) return true;
    report_.say("not started again: that was restart " + std::to_string(restarts) + " of --max-restarts " +
                std::to_string(options_.maxRestarts));
    return false;
  }

  // 0: the ranks may be started; else the status to end with, by a signal or since the time is up.
  Result<int> startAgain(const hycrt::OwnCheckpoints& own, const RunEnd& end, int64_t restart) {
    // A job that gets no further than before waits longer each time.
    pauseMs_ = report_.lastStep() > stepAtFailure_ ? kFirstPauseMs : std::min(pauseMs_ * 2, kLongestPauseMs);
    stepAtFailure_ = report_.lastStep();
    const double lost = report_.secondsSinceProgress();
    const int64_t begin = hycrt::monotonicNs();
    if (const int status = pauseOrStop(begin)) return status;
    const Result<int> stopped = takeNewest(own);
    if (!stopped.ok() || *stopped != 0) return stopped;
    takeCopy();
    if (const int status = stopAskedFor()) return status;
    const std::string from = copy_.isNone() ? options_.resume : hycrt::describe(copy_);
    const int64_t step = copy_.isNone() ? hycrt::stepOfCheckpoint(options_.resume) : copy_.step;
    if (isTimeOver()) return kPeerLost;
    const Result<bool> resized = leaveOut(end);
    if (!resized.ok()) return resized.status();
    char waited[32];
    std::snprintf(waited, sizeof waited, "%.1f s", secondsSince(begin));
    report_.say("restart " + std::to_string(restart) + " of " + std::to_string(options_.maxRestarts) + " (" +
                end.cause + "), " +
                (from.empty() ? "from the beginning" : "from " + (copy_.isNone() ? "'" + from + "'" : from)) +
                ", after " + waited + (*resized ? ", with " + std::to_string(manifest_.ranks.size()) + " ranks" : ""));
    HYCRT_RETURN_IF_ERROR(report_.add({*resized ? RunEvent::Kind::kResize : RunEvent::Kind::kRestart, step, end.cause,
                                       lost + secondsSince(begin), from}));
    return 0;
  }

  // From where the ranks go on: the newest checkpoint of this training, or what the first start went on from. Every
  // byte of it is read, which a signal cuts short: the status to end with then, else 0.
  Result<int> takeNewest(const hycrt::OwnCheckpoints& own) {
    Result<std::string> newest = own.newest(noteTo(report_), [this] { return signals_.isEndPending(); });
    if (const int status = stopAskedFor()) return status;
    if (!newest.ok()) return newest.status();
    options_.resume = newest->empty() ? resumeGiven_ : *newest;
    return 0;
  }

  // Else the ranks that are started next get the time that is left.
  bool isTimeOver() {
    if (given_.timeLimit == 0) return false;
    options_.timeLimit = given_.timeLimit - static_cast<int64_t>(report_.secondsInAll());
    if (options_.timeLimit > 0) return false;
    report_.say("not started again: --time-limit " + std::to_string(given_.timeLimit) + " is over");
    return true;
  }

  // The ranks have ended with a checkpoint, which those of the other layout go on from; where that cannot be run, they
  // themselves do.
  Result<int> changeLayout(const hycrt::OwnCheckpoints& own) {
    const double lost = report_.secondsSinceProgress();
    const Result<int> stopped = takeNewest(own);
    if (!stopped.ok() || *stopped != 0) return stopped;
    if (isTimeOver()) return kPeerLost;
    std::optional<Replanner::Layout> layout = replanner_->take();
    const std::string flags = layout ? layout->flags : "the layout of before";
    if (layout) {
      manifest_ = std::move(layout->manifest);
      options_.batchShares = std::move(layout->batchShares);
    }
    const std::string from = options_.resume.empty() ? "the beginning" : "'" + options_.resume + "'";
    report_.say("goes on from " + from + " in '" + manifest_.folder + "': " + flags);
    HYCRT_RETURN_IF_ERROR(report_.add(
        {RunEvent::Kind::kRelayout, hycrt::stepOfCheckpoint(options_.resume), flags, lost, manifest_.folder}));
    return 0;
  }

  // The newest copy that is whole in the memory of the hosts that are left, if it is newer than the checkpoint.
  void takeCopy() {
    copy_ = {};
    if (!copies_) return;
    std::string why;
    const hycrt::CopyKey newest = copies_->newest(&why);
    if (signals_.isEndPending()) return;  // by which not all were heard
    const int64_t step = hycrt::stepOfCheckpoint(options_.resume);
    if (newest.isNone()) {
      report_.say("no copy in memory is whole (" + why + "); " +
                  (options_.resume.empty() ? "there is no checkpoint either" : "the checkpoint on the disk is taken"));
      return;
    }
    if (newest.step <= step) {
      report_.say(hycrt::describe(newest) + " is no newer than the checkpoint on the disk, which is taken");
      return;
    }
    copy_ = newest;
    options_.resume.clear();
  }

  // A host that is lost, or has failed twice, is used no more where the others hold one of the sizes; whether that is
  // another one than before.
  Result<bool> leaveOut(const RunEnd& end) {
    if (end.host.empty() || (++failures_[end.host] < kMostFailures && !end.isHostLost)) return false;
    std::set<std::string> without = leftOut_;
    without.insert(end.host);
    const Result<std::vector<Host>> hosts = hostsOf(given_, without);
    if (!hosts.ok()) return hosts.status();
    const int64_t slots = slotsOf(*hosts), ranks = static_cast<int64_t>(manifest_.ranks.size());
    const bool isFixed = given_.ranks > 0 || sizes_.empty();
    const bool fits = isFixed ? slots >= ranks : hycrt::largestWithin(sizes_, slots) != nullptr;
    if (!fits) {
      report_.say("host '" + end.host + "' is used again, since the others have " + std::to_string(slots) + " slots");
      return false;
    }
    leftOut_ = std::move(without);
    report_.say("host '" + end.host + "' is left out from now on");
    const Result<std::string> folder = folderFor(given_, sizes_, leftOut_);
    if (!folder.ok()) return folder.status();
    Result<hycrt::Manifest> manifest = hycrt::readManifest(*folder);
    if (!manifest.ok()) return manifest.status();
    manifest_ = std::move(*manifest);
    const bool isOther = static_cast<int64_t>(manifest_.ranks.size()) != ranks;
    // They were told for ranks that are not there any more.
    if (isOther && !options_.batchShares.empty()) {
      report_.say("--batch-shares " + options_.batchShares + " was for " + std::to_string(ranks) +
                  " ranks; from now on all take what was compiled");
      options_.batchShares.clear();
    }
    return isOther;
  }

  // Signals are heard meanwhile.
  int pauseOrStop(int64_t begin) {
    for (int64_t left = pauseMs_; left > 0; left = pauseMs_ - (hycrt::monotonicNs() - begin) / 1000000) {
      pollfd signal{signals_.fd(), POLLIN, 0};
      poll(&signal, 1, static_cast<int>(left));
      if (const int status = stopAskedFor()) return status;
    }
    return 0;
  }

  // Between two starts: the status to end with by a signal that has come; 0: none has.
  int stopAskedFor() {
    while (const int taken = signals_.take()) {
      if (taken == SIGCHLD || taken == SIGUSR1 || taken == SIGUSR2) continue;  // what is saved is saved
      report_.say("stopped by " + Signals::nameOf(taken) + "; the ranks are not started again");
      return taken == SIGTERM ? kPeerLost : 128 + taken;
    }
    return 0;
  }

  hycrt::Manifest manifest_;
  const std::vector<hycrt::CompiledSize> sizes_;
  std::map<std::string, int> failures_;  // by host
  std::set<std::string> leftOut_;        // hosts
  const hycrt::RunOptions given_;
  hycrt::RunOptions options_;
  std::string resumeGiven_;  // the checkpoint that the first start went on from
  Signals signals_;
  Report report_;
  std::unique_ptr<Replanner> replanner_;  // null: nobody asked for another layout
  std::unique_ptr<CopyHosts> copies_;     // null: none are kept
  hycrt::CopyKey copy_;                   // that the next start goes on from
  int64_t pauseMs_ = kFirstPauseMs;
  int64_t stepAtFailure_ = -1;
};

}  // namespace

Result<int> runJob(hycrt::Manifest manifest, hycrt::RunOptions options, std::vector<hycrt::CompiledSize> sizes) {
  return Job(std::move(manifest), std::move(options), std::move(sizes)).run();
}

}  // namespace hycrun
