// CheckpointWrite: one checkpoint that is being written, from the moment that its states are known until it has its
// name or has failed.
//
// All ranks make the same calls between the same steps. Disks are another thread's: between two steps a rank says how
// far its own is (word), hears it of all (advance), and goes on. Thus nothing is exchanged but where training exchanges
// anyway, no rank waits for another's disk, and all come to the same after the same step:
//
//   begin     rank 0 makes the folder; the states are copied; each rank's thread writes its part, and a table of it
//   advance   all parts are there: rank 0's thread puts the tables together, writes the manifest last, and renames
//   advance   rank 0 has done so, or has failed
//
// Where a part or the manifest cannot be written, all know whose it was.
#ifndef HYCRT_SRC_CHECKPOINT_CHECKPOINT_WRITE_H_
#define HYCRT_SRC_CHECKPOINT_CHECKPOINT_WRITE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/background_job.h"
#include "checkpoint/part_writer.h"
#include "checkpoint/snapshot.h"

namespace hycrt {

// Of a rank, and who it is.
struct CheckpointPlan {
  const Mesh* mesh;
  Coordinates at;
  PartPlan parts;
};

class CheckpointWrite {
 public:
  struct Target {
    std::string directory, folder, partial;
    int64_t keep = 0;  // older ones
  };

  // All of it outlives this object.
  CheckpointWrite(const CheckpointPlan& plan, Target target, CheckpointManifest told, IoFaults* faults)
      : plan_(plan), target_(std::move(target)), told_(std::move(told)), faults_(faults) {}

  // Between two steps; states are read as `snapshot` has them while training goes on, or, null, where they lie before
  // this returns. An error is one of exchanging.
  Status begin(const Context& ctx, Snapshot* snapshot);
  // What advance has to be given of all ranks, in the bits that are kBits.
  uint64_t word() const;
  static constexpr uint64_t kDone = uint64_t{1} << 32, kFailed = uint64_t{1} << 33, kBits = kDone | kFailed;
  // How it ended; none: it goes on. Where it failed, kPeerLost is another rank's failure.
  std::optional<Status> advance(const uint64_t* wordOfRank);
  // For this rank's thread.
  void wait() { job_.wait(); }
  // Until nobody reads images of a device's memory.
  void awaitStates() {
    if (phase_ == Phase::kParts) job_.wait();
  }

  int64_t step() const { return told_.step; }
  const std::string& folder() const { return target_.folder; }
  // Of rank 0, of one that is over: what is left of others that it replaced or was to remove.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // When this rank's thread was done, of one that is over (monotonicNs).
  int64_t endNs() const { return job_.endNs(); }

 private:
  enum class Phase { kParts, kPublishing };

  int rank() const { return rankOf(*plan_.mesh, plan_.at); }
  // `made`: whether rank 0 has; of others kPeerLost where it has not. An error is one of exchanging.
  Status makeFolder(const Context& ctx, Status* made) const;
  // Where no thread is to be had training waits.
  void start(bool waits, const std::string& purpose, const std::function<Status()>& work);
  Status writeOwnPart(const PartSource& source);
  Status publish();
  Result<CheckpointParts> collectParts() const;
  void removePartial() const;

  const CheckpointPlan& plan_;
  const Target target_;
  CheckpointManifest told_;
  IoFaults* faults_;
  Phase phase_ = Phase::kParts;
  bool waits_ = false;
  std::optional<PartSource> source_;
  std::vector<std::string> warnings_;  // of the thread that publishes
  BackgroundJob job_;                  // last: it ends before what it uses
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_CHECKPOINT_WRITE_H_
