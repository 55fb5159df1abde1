// Lines, records and errors on their way out.
#include "run/terminal_events.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "hycrt/printable.h"

namespace hycrt {

static constexpr int kLauncherGraceSeconds = 5;

Status TerminalEvents::begin() {
  if (environment_.recordFd >= 0) {
    pipe_.reset(environment_.recordFd);
    return {};
  }
  if (environment_.rank != 0) return {};
  display_ = std::make_unique<StepDisplay>(stdout);
  if (logFile_.empty()) return {};
  Result<std::unique_ptr<StepLog>> log = StepLog::open(logFile_);
  if (!log.ok()) return log.status();
  log_ = std::move(*log);
  return {};
}

Status TerminalEvents::step(const StepRecord& record) {
  if (display_) display_->show(record);
  if (log_) return log_->append(record);
  if (!pipe_.isOpen()) return {};
  JsonLine line;
  return send(line.data(), writeJson(record, &line));
}

Status TerminalEvents::memory(const MemoryRecord& record) {
  const std::string line = toJson(record) + "\n";
  if (pipe_.isOpen()) return send(line.data(), line.size());
  if (display_) display_->clear();
  std::fputs(toTable({record}).c_str(), stdout);
  return {};
}

void TerminalEvents::note(const std::string& line) { std::fprintf(stderr, "%s\n", printable(line).c_str()); }

// A line is shorter than PIPE_BUF, so it is written whole or not at all.
Status TerminalEvents::send(const char* line, size_t size) {
  while (::write(pipe_.get(), line, size) < 0) {
    if (errno != EINTR) return errnoError("cannot report to the launcher", errno);
  }
  return {};
}

// A rank that only follows another's failure gives the launcher time to see that one, and to end this one unheard.
int TerminalEvents::report(const Status& status) const {
  if (status.ok()) return 0;
  if (environment_.underHycRun && status.code() == StatusCode::kPeerLost) sleep(kLauncherGraceSeconds);
  // hyc-run labels the lines of a rank itself.
  if (environment_.worldSize > 1 && !environment_.underHycRun) std::fprintf(stderr, "rank %d: ", environment_.rank);
  std::fprintf(stderr, "error: %s\n", printable(status.message()).c_str());
  return status.exitCode();
}

}  // namespace hycrt
