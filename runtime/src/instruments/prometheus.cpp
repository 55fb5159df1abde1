// Keeping what is told, and the thread that shows it.
#include "instruments/prometheus.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "base/clock.h"
#include "base/limits.h"
#include "hycrt/run_event.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr int64_t kFilePeriodMs = 1000;

// The thread takes none of the process's signals.
Status startWithoutSignals(const std::function<void()>& body, std::thread* thread) {
  sigset_t all, former;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &former);
  Status status = startThread("--prometheus", body, thread);
  pthread_sigmask(SIG_SETMASK, &former, nullptr);
  return status;
}

double unixTime() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

Result<std::unique_ptr<Prometheus>> Prometheus::open(const std::string& address, const std::string& textfile) {
  std::unique_ptr<Prometheus> made(new Prometheus(textfile));
  if (!textfile.empty()) {
    HYCRT_RETURN_IF_ERROR(made->takeExisting());
    made->partial_ = partialName(textfile, "hyc-" + makeName());
  }
  if (!address.empty()) {
    Result<ScrapeServer> server = ScrapeServer::open(address);
    if (!server.ok()) return server.status();
    made->server_ = std::move(*server);
  }
  if (!textfile.empty()) HYCRT_RETURN_IF_ERROR(made->writeText());
  made->stop_.reset(eventfd(0, EFD_CLOEXEC));
  if (!made->stop_.isOpen()) return errnoError("cannot make a descriptor for --prometheus", errno);
  HYCRT_RETURN_IF_ERROR(startWithoutSignals([prometheus = made.get()] { prometheus->serve(); }, &made->thread_));
  return made;
}

Prometheus::~Prometheus() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
  if (!textfile_.empty()) (void)writeText();
}

// Nobody's file but a run's is replaced.
Status Prometheus::takeExisting() const {
  if (access(textfile_.c_str(), F_OK) != 0) return {};
  Result<FileDescriptor> file = openForReading(textfile_);
  if (!file.ok()) return file.status();
  std::string start(64, '\0');
  const ssize_t count = pread(file->get(), start.data(), start.size(), 0);
  start.resize(count > 0 ? static_cast<size_t>(count) : 0);
  if (start.empty() || isPrometheusText(start)) return {};
  return dataError("'" + textfile_ +
                   "' is there and does not hold the metrics of a run; give --prometheus-textfile another name");
}

// Renamed into place, so that no reader finds half of it. It need not outlive the machine.
Status Prometheus::writeText() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    hasChanged_ = false;
  }
  const std::string text = prometheusText(snapshot());
  Result<FileDescriptor> file = createNew(partial_);
  if (!file.ok()) return file.status();
  Status status = writeAt(*file, partial_, text.data(), static_cast<int64_t>(text.size()), 0);
  if (status.ok()) status = checkNoLink(textfile_);
  if (status.ok() && rename(partial_.c_str(), textfile_.c_str()) != 0) {
    status = errnoError("cannot rename to '" + textfile_ + "'", errno);
  }
  if (!status.ok()) unlink(partial_.c_str());
  return status;
}

RunSnapshot Prometheus::snapshot() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return snapshot_;
}

void Prometheus::serve() {
  int64_t nextFileMs = monotonicMs() + kFilePeriodMs;
  for (;;) {
    pollfd polled[] = {{stop_.get(), POLLIN, 0}, {server_ ? server_->fd() : -1, POLLIN, 0}};
    poll(polled, 2, textfile_.empty() ? -1 : static_cast<int>(std::max<int64_t>(0, nextFileMs - monotonicMs())));
    if (polled[0].revents) return;
    if (polled[1].revents) {
      server_->answer([this] { return prometheusText(snapshot()); });
    }
    if (textfile_.empty() || monotonicMs() < nextFileMs) continue;
    nextFileMs = monotonicMs() + kFilePeriodMs;
    bool isDue = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      isDue = hasChanged_ && failure_.ok();
    }
    const Status written = isDue ? writeText() : Status();
    if (written.ok()) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = written;
  }
}

// Without a file that can be written the run ends, as without its log.
Status Prometheus::step(const StepRecord& record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hasChanged_ = true;
  if (record.batches > 0) {
    snapshot_.evaluation = record;
    return failure_;
  }
  snapshot_.step = record;
  ++snapshot_.totals.steps;
  snapshot_.totals.stepSeconds += record.milliseconds / 1e3;
  snapshot_.totals.lastStepTime = unixTime();
  return failure_;
}

Status Prometheus::happened(const RunEvent& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hasChanged_ = true;
  RunTotals& totals = snapshot_.totals;
  switch (event.kind) {
    case RunEvent::Kind::kCheckpoint:
      ++totals.checkpoints;
      totals.checkpointSeconds += event.seconds;
      return {};
    case RunEvent::Kind::kCheckpointFailed:
      ++totals.failedCheckpoints;
      totals.checkpointSeconds += event.seconds;
      return {};
    case RunEvent::Kind::kRestart:
    case RunEvent::Kind::kResize:
    case RunEvent::Kind::kRelayout:
      ++totals.restarts;
      totals.restartSeconds += event.seconds;
      return {};
    case RunEvent::Kind::kResume:
    case RunEvent::Kind::kVerify:
    case RunEvent::Kind::kCopy:
    case RunEvent::Kind::kCopyFailed:
    case RunEvent::Kind::kEnd:
    case RunEvent::Kind::kFailure:
    case RunEvent::Kind::kMeasure:
    case RunEvent::Kind::kProposal:
      return {};
  }
  return {};
}

Status Prometheus::exchange(const ExchangeRecord& record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hasChanged_ = true;
  for (ExchangeRecord& known : snapshot_.exchanges) {
    if (known.kind != record.kind || known.over != record.over || known.cause != record.cause) continue;
    known.times = record.times;
    known.seconds = record.seconds;
    known.lateSeconds = record.lateSeconds;
    return {};
  }
  snapshot_.exchanges.push_back(record);
  return {};
}

void Prometheus::setInstrumentTime(int64_t nanoseconds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  snapshot_.totals.instrumentSeconds = static_cast<double>(nanoseconds) * 1e-9;
}

}  // namespace hycrt
