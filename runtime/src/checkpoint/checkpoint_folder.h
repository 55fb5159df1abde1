// Folders of checkpoints: DIR/step-N, of which the one with the highest number that is whole is the newest.
//
// What is being written is DIR/step-N.RUN.partial until all of it is synced, its manifest last; then it is renamed. A
// crash leaves such a folder, which goes with the next run that writes there, or what was there before.
#ifndef HYCRT_SRC_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define HYCRT_SRC_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/file_lock.h"
#include "checkpoint/manifest.h"
#include "hycrt/status.h"
#include "io/io_fault.h"

namespace hycrt {

// Where the files of a checkpoint that lies in no folder are found.
class CheckpointFiles {
 public:
  virtual ~CheckpointFiles() = default;
  virtual Result<FileDescriptor> open(const std::string& name) const = 0;
};

struct Checkpoint {
  std::string folder;  // or, of one that lies in none, what people are told of it
  CheckpointManifest manifest;
  std::shared_ptr<const CheckpointFiles> files = nullptr;  // null: they lie in the folder
};

// DIR/step-N
std::string checkpointPath(const std::string& directory, int64_t step);
// N of a name step-N; -1: it is none.
int64_t stepOfName(const std::string& name);
// The steps of which there are folders, but for those in which nothing has the name of a checkpoint's file; the newest
// first.
Result<std::vector<int64_t>> stepsIn(const std::string& directory);

// Reads the manifest, and looks whether every file is there and as long as it should be. No link is followed inside.
Result<Checkpoint> openCheckpoint(const std::string& folder);
// A file of a checkpoint: regular, in the folder itself.
Result<FileDescriptor> openCheckpointFile(const std::string& folder, const std::string& name);

// The same of one that was opened, wherever its files lie.
Result<FileDescriptor> openFileOf(const Checkpoint& checkpoint, const std::string& name);

// Whether what has the name of a checkpoint is one of hyc's, be it damaged: a folder with a checkpoint.json of hyc's.
// Anything else, whose name is by chance that of a checkpoint, is neither replaced nor removed.
Status checkIsOwn(const std::string& folder);

// Whether `path` is a checkpoint rather than a folder of them.
bool isCheckpoint(const std::string& path);

// Asked by any thread, a chunk at a time, while all bytes of a checkpoint are read: whether that is to end, by kIo.
using GivesUp = std::function<bool()>;

// The newest that opens and, if that is asked, has all its bytes as they were written; `skipped` is told of newer ones.
// Where `isWanted` is given only steps that it takes count. kUnavailable: there is none at all.
Result<Checkpoint> newestCheckpoint(const std::string& directory, bool verifies,
                                    const std::function<void(const std::string&)>& skipped,
                                    const std::function<bool(int64_t)>& isWanted = {}, const GivesUp& givesUp = {});

// Every byte against its sums, by all threads, and headers against the manifest. The first error names file and tensor.
Status verifyCheckpoint(const Checkpoint& checkpoint, const GivesUp& givesUp = {});

// What a slice's bytes are called in an error: "'a', 'b' and 3 more".
std::string tensorsIn(const CheckpointManifest& manifest, const std::string& file, int64_t begin, int64_t end);

// ------------------------------------------------------------------------------------------------------------ writing

// Makes the folder where it is missing, with those above it.
Status makeDirectory(const std::string& directory);
// Of the one that writes there, which then removes what is left of runs that were killed.
enum class LockPatience {
  kNone,
  kLeaving,  // waits two seconds for one that is just leaving
};
Result<FileLock> lockDirectory(const std::string& directory, LockPatience patience = LockPatience::kNone);
// Before a run that goes on from `step` trains up to `steps`: whether each name that it may give a checkpoint is free,
// or that of another.
Status checkTargets(const std::string& directory, int64_t step, int64_t steps);
// Told in warnings, a sentence each.
using Warn = std::function<void(const std::string&)>;
// Gives a whole `partial` its name, which another checkpoint may have had. What others have put into that stays there.
Status publishCheckpoint(const std::string& partial, const std::string& target, IoFaults* faults, const Warn& warn);
void removeCheckpointFolder(const std::string& folder);
// Of those up to `step` all but the newest `keep`, 0: none. Later ones are another training's, which went on from one
// of these. What cannot be removed, or is not of a checkpoint, stays, and is told.
void removeOldCheckpoints(const std::string& directory, int64_t step, int64_t keep, const Warn& warn);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_CHECKPOINT_FOLDER_H_
