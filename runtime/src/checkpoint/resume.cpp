// Which checkpoint --resume means.
#include "hycrt/resume.h"

#include <unistd.h>

#include "checkpoint/checkpoint_folder.h"

namespace hycrt {
namespace {

Status checkGiven(const RunOptions& options) {
  if (!options.checkpoint.empty()) return {};
  const char* const flag = options.checkpointEvery > 0                             ? "--checkpoint-every"
                           : options.keep > 0                                      ? "--keep"
                           : options.checkpointFailure != CheckpointFailure::kStop ? "--checkpoint-failure"
                           : options.resume == "auto"                              ? "--resume auto"
                                                                                   : nullptr;
  if (!flag) return {};
  return usageError(std::string(flag) + " is given without a folder for checkpoints; give it with --checkpoint DIR");
}

}  // namespace

Status takeResume(RunOptions* options, CheckpointCheck check, const std::function<void(const std::string&)>& note) {
  HYCRT_RETURN_IF_ERROR(checkGiven(*options));
  if (options->resume.empty()) return {};
  const bool isAuto = options->resume == "auto";
  const std::string directory = isAuto ? options->checkpoint : options->resume;
  if (isAuto && access(directory.c_str(), F_OK) != 0) {
    options->resume.clear();
    return {};
  }
  if (!isAuto && isCheckpoint(directory)) return {};
  if (isAuto) {
    const Result<std::vector<int64_t>> steps = stepsIn(directory);
    if (!steps.ok()) return steps.status();
    if (steps->empty()) options->resume.clear();
    if (steps->empty()) return {};
  }
  Result<Checkpoint> newest = newestCheckpoint(
      directory, check == CheckpointCheck::kBytes,
      [&](const std::string& why) { note("warning: " + why + "; the checkpoint before it is taken"); });
  if (!newest.ok()) return newest.status();
  options->resume = newest->folder;
  return {};
}

void removePartialCheckpoints(const RunOptions& options) {
  // Holding the folder removes what nobody holds any more.
  if (!options.checkpoint.empty() && access(options.checkpoint.c_str(), W_OK) == 0) {
    (void)lockDirectory(options.checkpoint);
  }
}

}  // namespace hycrt
