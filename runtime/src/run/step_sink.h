// Where a rank's records go: to hyc-run over a pipe, or, without hyc-run, to the terminal and the log file.
#ifndef HYCRT_SRC_RUN_STEP_SINK_H_
#define HYCRT_SRC_RUN_STEP_SINK_H_

#include <memory>
#include <string>

#include "base/environment.h"
#include "base/file.h"
#include "hycrt/memory_report.h"
#include "hycrt/status.h"
#include "hycrt/step_report.h"

namespace hycrt {

class StepSink {
 public:
  // `logFile` is ignored where a launcher takes the records.
  static Result<std::unique_ptr<StepSink>> open(const Environment& environment, const std::string& logFile);

  // Of rank 0; other ranks' go nowhere.
  Status write(const StepRecord& record);
  // Of every rank.
  Status write(const MemoryRecord& record);

 private:
  StepSink() = default;

  Status send(const char* line, size_t size);

  bool reportsSteps_ = false;
  FileDescriptor pipe_;
  std::unique_ptr<StepLog> log_;
  std::unique_ptr<StepDisplay> display_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_STEP_SINK_H_
