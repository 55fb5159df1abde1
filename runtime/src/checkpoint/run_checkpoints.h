// RunCheckpoints: what a rank's run has to do with checkpoints. All ranks do it together: each writes its part into a
// folder that rank 0 has made under the run's own name, which also shows that all of them see one folder; rank 0 puts
// the parts' tables together and publishes.
#ifndef HYCRT_SRC_CHECKPOINT_RUN_CHECKPOINTS_H_
#define HYCRT_SRC_CHECKPOINT_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/file_lock.h"
#include "checkpoint/checkpoint_folder.h"
#include "hycrt/context.h"
#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "hycrt/run_event.h"
#include "io/dataset.h"
#include "io/initial_values.h"

namespace hycrt {

class RunCheckpoints {
 public:
  std::function<void(const std::string&)> note;
  std::function<Status(const RunEvent&)> tell;  // of rank 0

  // Before the ranks meet: finds what is resumed, takes its seed over, and holds the folder that is written to.
  Status prepare(int rank, RunOptions* options);
  // Whether the data is what the checkpoint's run had.
  Status checkData(const Dataset* data, const RunOptions& options);

  // Steps that are over, before the first of this run; how many of them updated nothing; and the difference of the
  // first step's first sample to its number times the global batch.
  int64_t firstStep() const { return resumed_ ? resumed_->manifest.step : 0; }
  int64_t skippedSteps() const { return skipped_; }
  int64_t itemShift(int64_t globalBatch) const;

  // First values of all states: the checkpoint's, and where it has none, as without it.
  Status load(const Context& ctx, const Manifest& manifest, const RunOptions& options);
  // Where the states are a checkpoint's; of rank 0.
  Status tellResume() const;

  bool isDueAfter(int64_t step, const RunOptions& options) const;
  // After `steps` steps. An error where the run shall end with it. `cause` is told.
  Status write(const Context& ctx, int64_t steps, const Manifest& manifest, const RunOptions& options,
               const std::string& run, const std::string& cause);

 private:
  Status writeOwnPart(const Context& ctx, const std::string& partial);
  Status publish(const Context& ctx, int64_t steps, const Manifest& manifest, const RunOptions& options,
                 const std::string& run);
  Result<CheckpointParts> collectParts(const Context& ctx, const std::string& partial) const;
  CheckpointManifest describe(const Context& ctx, int64_t steps, const Manifest& manifest,
                              const RunOptions& options) const;

  std::optional<Checkpoint> resumed_;
  int64_t skipped_ = 0;
  int64_t dataSamples_ = 0;
  int64_t lastWritten_ = -1;
  double loadSeconds_ = 0;
  FileLock lock_;  // of rank 0
  IoFaults faults_;
};

int64_t globalBatchOf(const Program& program);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_RUN_CHECKPOINTS_H_
