// TerminalEvents: what a rank with a command line tells: to hyc-run over a pipe, or, without hyc-run, on the terminal
// and in the log and other
// instruments.
#ifndef HYCRT_SRC_RUN_TERMINAL_EVENTS_H_
#define HYCRT_SRC_RUN_TERMINAL_EVENTS_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "base/file.h"
#include "hycrt/exchange_record.h"
#include "hycrt/instruments.h"
#include "hycrt/memory_report.h"
#include "hycrt/options.h"
#include "hycrt/run.h"
#include "hycrt/run_event.h"
#include "hycrt/step_report.h"

namespace hycrt {

class TerminalEvents : public RunEvents {
 public:
  // `environment` is read when something is told. Instruments are ignored where a launcher takes the records.
  TerminalEvents(const Environment& environment, const RunOptions& options);

  Status begin() override;
  Status step(const StepRecord& record) override;
  Status exchange(const ExchangeRecord& record) override;
  Status memory(const MemoryRecord& record) override;
  Status happened(const RunEvent& event) override;
  Status record(const std::string& json) override;
  uint32_t wishes() override;
  void note(const std::string& line) override;
  void debug(std::string_view line) override;
  void abandon(const Status& error) override { report(error); }

  // What SIGUSR1 asks for; on any thread, at any time.
  static void tellWhere(const std::string& where);

  // Prints an error, and at the end of a run with checkpoints what became of its time; gives the exit status.
  int report(const Status& status) const;

 private:
  Status send(const char* line, size_t size);

  void tellAccount() const;
  std::string label() const;

  const Environment& environment_;
  const RunOptions options_;
  bool takesEndSignal_ = false;
  const bool hasCheckpoints_;  // writes some, or goes on from one
  const int64_t beginNs_;
  RunAccount account_;
  bool endedEarly_ = false;
  FileDescriptor pipe_;
  std::unique_ptr<Instruments> instruments_;
  std::unique_ptr<StepDisplay> display_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_TERMINAL_EVENTS_H_
