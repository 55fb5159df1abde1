// What --checkpoint and --resume ask for, settled before anything is started.
#ifndef HYCRT_RESUME_H_
#define HYCRT_RESUME_H_

#include <functional>
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

// What the failed run of this name has left of a checkpoint that it was writing.
void removePartialCheckpoints(const RunOptions& options);

}  // namespace hycrt

#endif  // HYCRT_RESUME_H_
