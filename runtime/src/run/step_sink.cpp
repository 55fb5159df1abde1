// Opening and writing the pipe or the files that take a rank's records.
#include "run/step_sink.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace hycrt {

Result<std::unique_ptr<StepSink>> StepSink::open(const Environment& environment, const std::string& logFile) {
  std::unique_ptr<StepSink> sink(new StepSink());
  sink->reportsSteps_ = environment.rank == 0;
  if (environment.recordFd >= 0) {
    sink->pipe_.reset(environment.recordFd);
    return sink;
  }
  if (!sink->reportsSteps_) return sink;
  sink->display_ = std::make_unique<StepDisplay>(stdout);
  if (logFile.empty()) return sink;
  Result<std::unique_ptr<StepLog>> log = StepLog::open(logFile);
  if (!log.ok()) return log.status();
  sink->log_ = std::move(*log);
  return sink;
}

Status StepSink::write(const StepRecord& record) {
  if (!reportsSteps_) return {};
  if (display_) display_->show(record);
  if (log_) return log_->append(record);
  if (!pipe_.isOpen()) return {};
  JsonLine line;
  return send(line.data(), writeJson(record, &line));
}

Status StepSink::write(const MemoryRecord& record) {
  const std::string line = toJson(record) + "\n";
  if (pipe_.isOpen()) return send(line.data(), line.size());
  if (display_) display_->clear();
  std::fputs(toTable({record}).c_str(), stdout);
  return {};
}

// A line is shorter than PIPE_BUF, so it is written whole or not at all.
Status StepSink::send(const char* line, size_t size) {
  while (::write(pipe_.get(), line, size) < 0) {
    if (errno != EINTR) return errnoError("cannot report to the launcher", errno);
  }
  return {};
}

}  // namespace hycrt
