// Snapshot: the states of one moment, kept while training changes them.
//
// What lies in memory is copied, into room that the program has declared (Program::snapshotBytes). Two things are not:
// of a device's memory the image on the host, which is filled for a checkpoint and changed by nothing else, and what
// lies on a disk. That is read from there while training goes on; a write that would go over it waits until it was
// read (BlockFile::hold), which costs something only where the next update comes before the disk has given all of it.
#ifndef HYCRT_SRC_CHECKPOINT_SNAPSHOT_H_
#define HYCRT_SRC_CHECKPOINT_SNAPSHOT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "hycrt/context.h"
#include "hycrt/status.h"
#include "memory/rank_memory.h"

namespace hycrt {

class Snapshot {
 public:
  // What copies of these take, each from a multiple of kAlignment on.
  static int64_t bytesOf(const Context& ctx, const std::vector<const StateDesc*>& states);
  // Room for them; nothing is resident before it is touched or copied to. `states` outlive it.
  static Result<Snapshot> create(const Context& ctx, const std::vector<const StateDesc*>& states);

  // Has the system give all of the room, so that the first copy need not wait for it; on any thread, before that.
  void touch(const std::atomic<bool>& givesUp);
  // As the states are now. What was held before is let go.
  void take(const Context& ctx);
  // Null: it lies in the rank's file.
  const std::byte* memoryOf(const StateDesc& state) const { return places_.at(&state); }

  const std::byte* base() const { return room_.base(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Copy {
    std::byte* to;
    BufferRef from;
    int64_t bytes;
  };
  std::map<const StateDesc*, const std::byte*> places_;
  std::vector<Copy> copies_;
  std::vector<const StateDesc*> onDisk_;
  Mapping room_;
  int64_t bytes_ = 0;
};

// A state where it lies between two steps; null: in the rank's file.
const std::byte* stateInMemory(const Context& ctx, const StateDesc& state);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_SNAPSHOT_H_
