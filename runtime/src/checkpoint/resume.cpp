// Which checkpoint --resume means.
#include "hycrt/resume.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "checkpoint/checkpoint_folder.h"

namespace hycrt {
namespace {

Status checkGiven(const RunOptions& options) {
  if (!options.checkpoint.empty()) return {};
  const bool restarts = options.maxRestarts > 0 && options.copy == CopyPlace::kNone;
  const char* const flag = options.checkpointEvery > 0                             ? "--checkpoint-every"
                           : options.keep > 0                                      ? "--keep"
                           : options.checkpointFailure != CheckpointFailure::kStop ? "--checkpoint-failure"
                           : options.checkpointMode != CheckpointMode::kAuto       ? "--checkpoint-mode"
                           : restarts                                              ? "--max-restarts"
                           : options.timeLimit > 0                                 ? "--time-limit"
                           : options.resume == "auto"                              ? "--resume auto"
                                                                                   : nullptr;
  if (!flag) return {};
  if (options.evaluate)
    return usageError("--resume auto takes the newest of --checkpoint, which an evaluation has not; name the folder");
  return usageError(std::string(flag) + " is given without a folder for checkpoints; give it with --checkpoint DIR");
}

// Of one that is there no two have the same; 0: it is not.
uint64_t folderNumber(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 ? info.st_ino : 0;
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
  Result<Checkpoint> newest =
      newestCheckpoint(directory, check == CheckpointCheck::kBytes,
                       [&](const std::string& why) { note("warning: " + why + "; an earlier one is looked for"); });
  if (!newest.ok()) return newest.status();
  options->resume = newest->folder;
  return {};
}

int64_t stepOfCheckpoint(const std::string& path) {
  return path.empty() ? 0 : std::max<int64_t>(0, stepOfName(std::filesystem::path(path).filename().string()));
}

OwnCheckpoints::OwnCheckpoints(const RunOptions& options) : directory_(options.checkpoint) {
  if (directory_.empty()) return;
  const std::filesystem::path resumed(options.resume);
  std::error_code unknown;
  const bool goesOn =
      !options.resume.empty() && std::filesystem::equivalent(resumed.parent_path(), directory_, unknown);
  const Result<std::vector<int64_t>> steps = stepsIn(directory_);
  for (int64_t step : steps.ok() ? *steps : std::vector<int64_t>()) {
    if (goesOn && step <= stepOfCheckpoint(options.resume)) continue;
    others_[step] = folderNumber(checkpointPath(directory_, step));
  }
}

std::string OwnCheckpoints::warning(const RunOptions& options) const {
  const int64_t begin = stepOfCheckpoint(options.resume);
  if (others_.empty() || others_.rbegin()->first <= begin) return "";
  return "warning: '" + directory_ + "' (--checkpoint) holds step-" + std::to_string(others_.rbegin()->first) +
         " of another training, and this one begins at step " + std::to_string(begin) +
         ": --resume auto would go on from that one, and --keep counts it; name another folder, or move it away";
}

Result<std::string> OwnCheckpoints::newest(const std::function<void(const std::string&)>& note,
                                           const std::function<bool()>& givesUp) const {
  if (directory_.empty() || access(directory_.c_str(), F_OK) != 0) return std::string();
  const auto isOwn = [this](int64_t step) {
    const auto other = others_.find(step);
    return other == others_.end() || other->second != folderNumber(checkpointPath(directory_, step));
  };
  const Result<Checkpoint> newest = newestCheckpoint(
      directory_, /*verifies=*/true,
      [&](const std::string& why) { note("warning: " + why + "; an earlier one is looked for"); }, isOwn, givesUp);
  if (newest.ok()) return newest->folder;
  return newest.status().code() == StatusCode::kUnavailable ? Result<std::string>(std::string()) : newest.status();
}

void removePartialCheckpoints(const RunOptions& options) {
  // Holding the folder removes what nobody holds any more.
  if (!options.checkpoint.empty() && access(options.checkpoint.c_str(), W_OK) == 0) {
    (void)lockDirectory(options.checkpoint);
  }
}

}  // namespace hycrt
