// RunCheckpoints: what a rank's run has to do with checkpoints. All ranks do it together: each writes its part into a
// folder that rank 0 has made under the run's own name, which also shows that all of them see one folder; rank 0 puts
// the parts' tables together and publishes. One at a time (checkpoint_write.h), which training need not wait for.
#ifndef HYCRT_SRC_CHECKPOINT_RUN_CHECKPOINTS_H_
#define HYCRT_SRC_CHECKPOINT_RUN_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/file_lock.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_write.h"
#include "checkpoint/snapshot.h"
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
  // `copy`: what is gone on from in place of --resume (copies/run_copies.h).
  Status prepare(int rank, RunOptions* options, std::optional<Checkpoint> copy = std::nullopt);
  // Of rank 0: whether nothing lies where this run's checkpoints go that is none.
  Status checkFolder(int rank, const RunOptions& options) const;
  // Whether the data is what the checkpoint's run had.
  Status checkData(const Dataset* data, const RunOptions& options, int64_t samplesOfStep);

  // Whether the programs train what the checkpoint's did: adapters that are scaled alike.
  Status checkTraining(const Manifest& manifest);

  // Steps that are over, before the first of this run; how many of them updated nothing; and the difference of the
  // first step's first sample to its number times the global batch.
  int64_t firstStep() const { return resumed_ ? resumed_->manifest.step : 0; }
  int64_t skippedSteps() const { return skipped_; }
  int64_t itemShift(int64_t globalBatch) const;

  // First values of all states: the checkpoint's, and where it has none, as without it.
  Status load(const Context& ctx, const Manifest& manifest, const RunOptions& options);
  // Where the states are a checkpoint's; of rank 0.
  Status tellResume() const;

  // Once the states are there, before the first step: decides how checkpoints are written, and takes room for it.
  Status open(const Context& ctx, const RunOptions& options, int ranksHere);

  bool isDueAfter(int64_t step, const RunOptions& options) const;
  // After `steps` steps, where no other is being written. An error where the run shall end with it. `cause` is told.
  // Training goes on while it is written, unless that was not to be, or `waits`.
  Status begin(const Context& ctx, int64_t steps, const Manifest& manifest, const RunOptions& options,
               const std::string& run, const std::string& cause, bool waits);
  // Between two steps, of all ranks: what each says (in bits that no RunWish has), and what becomes of what all say.
  uint64_t word() const { return writing_ ? writing_->word() : 0; }
  Status advance(const Context& ctx, const uint64_t* wordOfRank);
  // Waits for the one that is being written, if one is.
  Status finish(const Context& ctx);
  bool isWriting() const { return writing_ != nullptr; }
  // A step that training has gone on by.
  void stepTook(double seconds) { goneOn_ += seconds; }
  // Before images of a device's memory are filled anew.
  void awaitStates() {
    if (writing_) writing_->awaitStates();
  }
  // Of all ranks, when one has ended: how long the disk took.
  std::function<void(double)> took;

  // What a checkpoint after `steps` steps says, but for its parts.
  CheckpointManifest describe(const Context& ctx, int64_t steps, const Manifest& manifest,
                              const RunOptions& options) const;

  // The room for copies of states; null: there is none.
  const Snapshot* snapshot() const { return snapshot_ ? &*snapshot_ : nullptr; }
  bool hasWritten() const { return lastWritten_ >= 0; }

 private:
  void tellOfChanges(const Manifest& manifest, const RunOptions& options) const;
  Status checkStates(const Context& ctx, const Manifest& manifest, const RunOptions& options);

  Status over(const Context& ctx, const Status& status);
  bool hasRoom(const Context& ctx, int64_t needed, int ranksHere) const;
  std::optional<Checkpoint> resumed_;
  int64_t skipped_ = 0;
  int64_t dataSamples_ = 0;
  std::string arrangement_;  // of the data
  CheckpointTraining training_;
  int64_t lastWritten_ = -1;
  double loadSeconds_ = 0;
  FileLock lock_;  // of rank 0
  IoFaults faults_;

  CheckpointPlan plan_{};
  std::optional<Snapshot> snapshot_;
  BackgroundJob touching_;  // it, while the first steps are made
  // Of the one that is being written.
  std::string cause_;
  bool goesOn_ = false;  // the run, where it fails
  int64_t beginNs_ = 0, heldUpNs_ = 0;
  double heldUpByFile_ = 0, goneOn_ = 0;
  bool isAside_ = false;  // training goes on
  int64_t samplesOfStep_ = 0;
  std::unique_ptr<CheckpointWrite> writing_;  // last: its thread uses the others
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_RUN_CHECKPOINTS_H_
