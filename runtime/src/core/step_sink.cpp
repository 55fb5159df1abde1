#include "core/step_sink.h"

#include <unistd.h>

#include <cerrno>

namespace hycrt {

Result<std::unique_ptr<StepSink>> StepSink::open(const Environment& environment, const std::string& logFile) {
  std::unique_ptr<StepSink> sink(new StepSink());
  if (environment.rank != 0) return sink;
  if (environment.recordFd >= 0) {
    sink->pipe_.reset(environment.recordFd);
    return sink;
  }
  sink->display_ = std::make_unique<StepDisplay>(stdout);
  if (logFile.empty()) return sink;
  Result<std::unique_ptr<StepLog>> log = StepLog::open(logFile);
  if (!log.ok()) return log.status();
  sink->log_ = std::move(*log);
  return sink;
}

Status StepSink::write(const StepRecord& record) {
  if (display_) display_->show(record);
  if (log_) return log_->append(record);
  if (!pipe_.isOpen()) return {};
  // A line is shorter than PIPE_BUF, so it is written whole or not at all.
  const std::string line = toJson(record) + "\n";
  while (::write(pipe_.get(), line.data(), line.size()) < 0) {
    if (errno != EINTR) return errnoError("cannot report a step to the launcher", errno);
  }
  return {};
}

}  // namespace hycrt
