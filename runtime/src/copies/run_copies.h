// RunCopies: what a rank's run has to do with copies of its states in the memory of hosts (hycrt/copies.h). All ranks
// do it together: each copies what a checkpoint would have of it (checkpoint/snapshot.h), and a thread makes files of
// that in memory and gives them to the keeper of its host, which passes them on to another one. A copy is whole once
// all ranks have done so; they tell each other before the next one begins, and before the step is told after which it
// does: so that of the steps that were told one at most is not in a whole copy.
#ifndef HYCRT_SRC_COPIES_RUN_COPIES_H_
#define HYCRT_SRC_COPIES_RUN_COPIES_H_

#include <functional>
#include <optional>
#include <string>

#include "base/background_job.h"
#include "base/environment.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_write.h"
#include "checkpoint/snapshot.h"
#include "hycrt/context.h"
#include "hycrt/copies.h"
#include "hycrt/options.h"
#include "hycrt/run_event.h"

namespace hycrt {

class RunCopies {
 public:
  std::function<void(const std::string&)> note;
  std::function<Status(const RunEvent&)> tell;  // of rank 0

  // Before the ranks meet: the copy that the run goes on from, if it is to.
  Result<std::optional<Checkpoint>> prepare(const Environment& environment, const RunOptions& options);
  // Once the states are there: takes room for a copy of them.
  Status open(const Context& ctx);

  // After step number `step`, from 0; after the last there is nothing that could be lost.
  bool isDueAfter(int64_t step) const;
  // Between two steps, where no other is being made: training goes on when this returns. `told`: as of a checkpoint.
  Status begin(const Context& ctx, const CheckpointManifest& told);
  // Waits until all ranks have made theirs, or have failed; the run goes on in both cases.
  Status finish(const Context& ctx);
  // Before images of a device's memory are filled anew, or what is on a disk is read by somebody else.
  void awaitStates() { job_.wait(); }

  const Snapshot* snapshot() const { return snapshot_ ? &*snapshot_ : nullptr; }

 private:
  Status make();
  Status putPart(class CopyClient& client);

  std::string socket_;
  int64_t start_ = 0, every_ = 0, steps_ = 0;  // every 0: no copies are made
  CopyKey whole_;                              // the newest that all ranks know to be
  int failures_ = 0;                           // in a row
  int64_t nextTry_ = 0;                        // step before which none is made
  CheckpointPlan plan_{};
  std::optional<Snapshot> snapshot_;
  // Of the one that is being made.
  bool isMaking_ = false;
  CopyKey key_;
  CheckpointManifest told_;
  int64_t beginNs_ = 0, heldUpNs_ = 0;
  std::optional<PartSource> source_;
  BackgroundJob job_;  // last: it ends before what it uses
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COPIES_RUN_COPIES_H_
