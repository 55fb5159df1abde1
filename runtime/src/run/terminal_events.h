// TerminalEvents: what a rank with a command line tells: to hyc-run over a pipe, or, without hyc-run, on the terminal
// and in the log file.
#ifndef HYCRT_SRC_RUN_TERMINAL_EVENTS_H_
#define HYCRT_SRC_RUN_TERMINAL_EVENTS_H_

#include <memory>
#include <string>

#include "base/environment.h"
#include "base/file.h"
#include "hycrt/memory_report.h"
#include "hycrt/run.h"
#include "hycrt/step_report.h"

namespace hycrt {

class TerminalEvents : public RunEvents {
 public:
  // `environment` is read when something is told. `logFile` is ignored where a launcher takes the records.
  TerminalEvents(const Environment& environment, std::string logFile)
      : environment_(environment), logFile_(std::move(logFile)) {}

  Status begin() override;
  Status step(const StepRecord& record) override;
  Status memory(const MemoryRecord& record) override;
  void note(const std::string& line) override;
  void abandon(const Status& error) override { report(error); }

  // Prints an error, and gives the exit status.
  int report(const Status& status) const;

 private:
  Status send(const char* line, size_t size);

  const Environment& environment_;
  const std::string logFile_;
  FileDescriptor pipe_;
  std::unique_ptr<StepLog> log_;
  std::unique_ptr<StepDisplay> display_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_TERMINAL_EVENTS_H_
