// What --checkpoint and --resume ask for, settled before anything is started.
#ifndef HYCRT_RESUME_H_
#define HYCRT_RESUME_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "hycrt/options.h"
#include "hycrt/status.h"

namespace hycrt {

enum class CheckpointCheck {
  kFiles,  // every file is there and as long as it should be; the rest is seen when it is read
  kBytes,  // every byte is as it was written
};

// Makes --resume the path of one checkpoint, DIR/step-N: of a folder of them the newest that is whole, of which newer
// ones are passed over with a note; of "auto" the newest in --checkpoint, or nothing where there is none yet.
Status takeResume(RunOptions* options, CheckpointCheck check, const std::function<void(const std::string&)>& note);

// The step of DIR/step-N; 0 for a path that names none.
int64_t stepOfCheckpoint(const std::string& path);

// Which checkpoints of --checkpoint are of the training that begins now: the one that it goes on from, those before it,
// and those that are written from now on. What else lies there, another training has left.
class OwnCheckpoints {
 public:
  // `options` after takeResume, before anything is written.
  explicit OwnCheckpoints(const RunOptions& options);
  // A warning, where what another training has left is of later steps than this one begins at: --resume auto would go
  // on from that. Else "".
  std::string warning(const RunOptions& options) const;
  // The newest of them that is whole in every byte; empty: there is none yet. Newer ones are passed over with a note.
  // `givesUp` is asked by any thread while bytes are read: where it says so that ends, and kIo comes of it.
  Result<std::string> newest(const std::function<void(const std::string&)>& note,
                             const std::function<bool()>& givesUp = {}) const;

 private:
  std::string directory_;
  std::map<int64_t, uint64_t> others_;  // by step: the number of a folder that is not this training's
};

// What the failed run of this name has left of a checkpoint that it was writing.
void removePartialCheckpoints(const RunOptions& options);

}  // namespace hycrt

#endif  // HYCRT_RESUME_H_
