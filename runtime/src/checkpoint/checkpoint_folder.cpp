// Finding, checking, publishing and removing checkpoints.
#include "checkpoint/checkpoint_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <omp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/crc32c.h"
#include "base/secret.h"
#include "base/staged_folder.h"
#include "base/work_by_threads.h"
#include "checkpoint/stream_file.h"
#include "hycrt/safetensors.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr const char* kStep = "step-";
constexpr size_t kMostDigits = 18;
constexpr int64_t kMaxManifestBytes = int64_t{1} << 30;
constexpr int kMostTries = 20;  // to hold a folder that another run may just be leaving
constexpr std::chrono::milliseconds kBetweenTries{100};

std::string withoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string nameIn(const std::string& path) { return withoutSlash(path).substr(withoutSlash(path).rfind('/') + 1); }

Result<FileDescriptor> openFolder(const std::string& folder) {
  FileDescriptor opened(open(withoutSlash(folder).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (opened.isOpen()) return opened;
  if (errno == ELOOP || errno == ENOTDIR)
    return dataError("'" + folder + "' is a link or no folder, expected a folder");
  return errnoError("cannot open the checkpoint '" + folder + "'", errno);
}

Status checkFiles(const Checkpoint& checkpoint) {
  for (const auto& [name, file] : checkpoint.manifest.parts.files) {
    Result<FileDescriptor> opened = openCheckpointFile(checkpoint.folder, name);
    if (!opened.ok()) return opened.status();
    const std::string path = checkpoint.folder + "/" + name;
    Result<int64_t> bytes = fileSize(*opened, path);
    if (!bytes.ok()) return bytes.status();
    if (*bytes == file.sums.bytes) continue;
    return dataError("'" + path + "' has " + std::to_string(*bytes) + " bytes, expected " +
                     std::to_string(file.sums.bytes) + " by " + kCheckpointManifest);
  }
  return {};
}

// What the file's own header says against the manifest.
Status checkHeader(const Checkpoint& checkpoint, const std::string& name) {
  const std::string path = checkpoint.folder + "/" + name;
  Result<TensorDirectory> directory = readSafetensorsDirectory(path);
  if (!directory.ok()) return directory.status();
  for (const auto& [tensor, told] : checkpoint.manifest.parts.tensors) {
    for (const CheckpointSlice& slice : told.slices) {
      if (slice.file != name) continue;
      const auto found = directory->find(tensor);
      const std::vector<int64_t> shape(slice.box.size.begin(), slice.box.size.end());
      if (found != directory->end() && found->second.begin == slice.byte && found->second.shape == shape &&
          found->second.dtype == told.dtype) {
        continue;
      }
      return dataError("'" + path + "': its header has not the part of '" + tensor + "' that " + kCheckpointManifest +
                       " tells of");
    }
  }
  return {};
}

Status verifyFile(const Checkpoint& checkpoint, const std::string& name, const CheckpointFile& file,
                  const GivesUp& givesUp) {
  const std::string path = checkpoint.folder + "/" + name;
  Result<FileDescriptor> opened = openCheckpointFile(checkpoint.folder, name);
  if (!opened.ok()) return opened.status();
  std::vector<std::byte> chunk(static_cast<size_t>(std::min(kChunkBytes, file.sums.bytes)));
  Sha256 sha;
  for (size_t i = 0; i < file.sums.chunks.size(); ++i) {
    if (givesUp && givesUp()) return ioError("'" + checkpoint.folder + "' was not read to its end, as was asked for");
    const int64_t begin = static_cast<int64_t>(i) * kChunkBytes, end = std::min(begin + kChunkBytes, file.sums.bytes);
    HYCRT_RETURN_IF_ERROR(readAt(*opened, path, chunk.data(), end - begin, begin));
    if (crc32c(0, chunk.data(), static_cast<size_t>(end - begin)) != file.sums.chunks[i]) {
      return dataError("'" + path + "': bytes [" + std::to_string(begin) + ", " + std::to_string(end) + ") with " +
                       tensorsIn(checkpoint.manifest, name, begin, end) + " are not what was written (CRC32C)");
    }
    sha.add(chunk.data(), static_cast<size_t>(end - begin));
  }
  const std::string digest = sha.finish();
  if (!digest.empty() && !file.sha256.empty() && digest != file.sha256) {
    return dataError("'" + path + "' has the SHA-256 " + digest + ", expected " + file.sha256);
  }
  return checkHeader(checkpoint, name);
}

}  // namespace

namespace {

// All that is named as a checkpoint, the newest first.
Result<std::vector<int64_t>> stepsNamedIn(const std::string& directory) {
  DIR* entries = opendir(directory.c_str());
  if (entries == nullptr) return errnoError("cannot read the folder '" + directory + "'", errno);
  std::vector<int64_t> steps;
  while (const dirent* entry = readdir(entries)) {
    if (const int64_t step = stepOfName(entry->d_name); step >= 0) steps.push_back(step);
  }
  closedir(entries);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

// As one is that was removed, and that others had put something into.
bool holdsOthersAlone(const std::string& folder) {
  const auto isNone = [](const std::string&) { return false; };
  const size_t foreign = foreignIn(folder, isCheckpointFileName).size();
  return foreign > 0 && foreign == foreignIn(folder, isNone).size();
}

}  // namespace

std::string checkpointPath(const std::string& directory, int64_t step) {
  return withoutSlash(directory) + "/" + kStep + std::to_string(step);
}

int64_t stepOfName(const std::string& name) {
  const std::string digits = name.rfind(kStep, 0) == 0 ? name.substr(std::string(kStep).size()) : "";
  if (digits.empty() || digits.size() > kMostDigits || digits.find_first_not_of("0123456789") != std::string::npos) {
    return -1;
  }
  return digits[0] == '0' ? -1 : std::stoll(digits);
}

Result<std::vector<int64_t>> stepsIn(const std::string& directory) {
  Result<std::vector<int64_t>> steps = stepsNamedIn(directory);
  if (!steps.ok()) return steps;
  const auto isNone = [&](int64_t step) {
    const std::string path = checkpointPath(directory, step);
    struct stat info;
    return lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || holdsOthersAlone(path);
  };
  steps->erase(std::remove_if(steps->begin(), steps->end(), isNone), steps->end());
  return steps;
}

Result<FileDescriptor> openCheckpointFile(const std::string& folder, const std::string& name) {
  Result<FileDescriptor> opened = openFolder(folder);
  if (!opened.ok()) return opened.status();
  const std::string path = withoutSlash(folder) + "/" + name;
  FileDescriptor file(openat(opened->get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.isOpen() && errno == ELOOP) return dataError("'" + path + "' is a link, expected a file");
  if (!file.isOpen() && errno == ENOENT) return dataError("'" + path + "' is missing");
  if (!file.isOpen()) return errnoError("cannot open '" + path + "'", errno);
  struct stat info;
  if (fstat(file.get(), &info) != 0) return errnoError("cannot examine '" + path + "'", errno);
  if (!S_ISREG(info.st_mode)) return dataError("'" + path + "' is no regular file");
  return file;
}

Result<Checkpoint> openCheckpoint(const std::string& folder) {
  Checkpoint checkpoint;
  checkpoint.folder = withoutSlash(folder);
  Result<FileDescriptor> file = openCheckpointFile(folder, kCheckpointManifest);
  if (!file.ok()) return file.status();
  const std::string path = checkpoint.folder + "/" + kCheckpointManifest;
  Result<std::string> text = readWholeFile(*file, path, kMaxManifestBytes);
  if (!text.ok()) return text.status();
  Result<CheckpointManifest> manifest = parseCheckpointManifest(*text, "'" + path + "'");
  if (!manifest.ok()) return manifest.status();
  checkpoint.manifest = std::move(*manifest);
  HYCRT_RETURN_IF_ERROR(checkFiles(checkpoint));
  return checkpoint;
}

Result<FileDescriptor> openFileOf(const Checkpoint& checkpoint, const std::string& name) {
  return checkpoint.files ? checkpoint.files->open(name) : openCheckpointFile(checkpoint.folder, name);
}

Status checkIsOwn(const std::string& folder) {
  const auto foreign = [&](const std::string& why) {
    return dataError("'" + folder + "' has the name of a checkpoint, and is none of hyc's (" + why +
                     "); move it away, or name another folder for checkpoints");
  };
  Result<FileDescriptor> file = openCheckpointFile(folder, kCheckpointManifest);
  if (!file.ok()) return file.status().code() == StatusCode::kData ? foreign(file.status().message()) : file.status();
  const std::string path = withoutSlash(folder) + "/" + kCheckpointManifest;
  Result<std::string> text = readWholeFile(*file, path, kMaxManifestBytes);
  if (!text.ok()) return text.status();
  return isManifestOfSomeKind(*text) ? Status() : foreign("'" + path + "' is another program's");
}

bool isCheckpoint(const std::string& path) {
  struct stat info;
  return stepOfName(nameIn(path)) >= 0 || lstat((path + "/" + kCheckpointManifest).c_str(), &info) == 0;
}

Result<Checkpoint> newestCheckpoint(const std::string& directory, bool verifies,
                                    const std::function<void(const std::string&)>& skipped,
                                    const std::function<bool(int64_t)>& isWanted, const GivesUp& givesUp) {
  Result<std::vector<int64_t>> steps = stepsIn(directory);
  if (!steps.ok()) return steps.status();
  if (isWanted) {
    steps->erase(std::remove_if(steps->begin(), steps->end(), [&](int64_t step) { return !isWanted(step); }),
                 steps->end());
  }
  for (int64_t step : *steps) {
    Result<Checkpoint> checkpoint = openCheckpoint(checkpointPath(directory, step));
    const Status status = !checkpoint.ok() ? checkpoint.status()
                          : verifies       ? verifyCheckpoint(*checkpoint, givesUp)
                                           : Status();
    if (status.ok()) return checkpoint;
    // What may not be read is no reason to go back.
    if (status.code() != StatusCode::kData) return status;
    skipped(status.message());
  }
  const std::string found =
      steps->empty() ? "holds no checkpoint, expected folders step-N"
      : steps->size() == 1
          ? "holds one checkpoint, which is not whole; move it away to start anew"
          : "holds " + std::to_string(steps->size()) + " checkpoints, none of them whole; move them away to start anew";
  return unavailableError("'" + directory + "' " + found);
}

std::string tensorsIn(const CheckpointManifest& manifest, const std::string& file, int64_t begin, int64_t end) {
  std::string text;
  size_t count = 0;
  for (const auto& [name, tensor] : manifest.parts.tensors) {
    for (const CheckpointSlice& slice : tensor.slices) {
      const int64_t bytes = elementCount(slice.box.size) * sizeOf(tensor.dtype);
      if (slice.file != file || slice.byte >= end || slice.byte + bytes <= begin) continue;
      if (count++ < 3) text += (text.empty() ? "'" : ", '") + name + "'";
    }
  }
  if (count > 3) text += " and " + std::to_string(count - 3) + " more";
  return count == 0 ? "its header" : text;
}

Status verifyCheckpoint(const Checkpoint& checkpoint, const GivesUp& givesUp) {
  std::vector<std::pair<std::string, const CheckpointFile*>> files;
  for (const auto& [name, file] : checkpoint.manifest.parts.files) files.emplace_back(name, &file);
  return forEachPiece(files.size(), static_cast<size_t>(omp_get_max_threads()), "verifying a checkpoint",
                      [&](size_t i, std::vector<std::byte>*) {
                        return verifyFile(checkpoint, files[i].first, *files[i].second, givesUp);
                      });
}

Status makeDirectory(const std::string& directory) {
  const std::string path = withoutSlash(directory);
  HYCRT_RETURN_IF_ERROR(makeFolders(path));
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return {};
  return ioError("'" + directory + "' is no folder, expected one for checkpoints");
}

Result<FileLock> lockDirectory(const std::string& directory, LockPatience patience) {
  const std::string path = withoutSlash(directory);
  const auto take = [&] {
    return FileLock::take(path + "/.hyc-checkpoints.lock", "which writes checkpoints to '" + path + "'");
  };
  Result<FileLock> lock = take();
  // A process that was killed holds it until the disk has answered its last write.
  const int tries = patience == LockPatience::kLeaving ? kMostTries : 0;
  for (int i = 0; i < tries && !lock.ok() && lock.status().code() == StatusCode::kUnavailable; ++i) {
    std::this_thread::sleep_for(kBetweenTries);
    lock = take();
  }
  if (lock.ok() && lock->isExclusive()) {
    removeLeftovers(path, [](const std::string& name) { return stepOfName(name) >= 0; }, isCheckpointFileName);
  }
  if (lock.ok() || lock.status().code() != StatusCode::kUnavailable) return lock;
  return unavailableError("--checkpoint '" + directory + "' is another run's: " + lock.status().message() +
                          "; name another folder, or wait for that run");
}

void removeCheckpointFolder(const std::string& folder) { removeOwnFolder(folder, isCheckpointFileName); }

Status checkTargets(const std::string& directory, int64_t step, int64_t steps) {
  const Result<std::vector<int64_t>> named = stepsNamedIn(directory);
  if (!named.ok()) return named.status();
  for (int64_t other : *named) {
    // A run with no step left writes what it has read.
    const bool isTarget = step < steps ? other > step && other <= steps : other == step;
    if (isTarget) HYCRT_RETURN_IF_ERROR(checkIsOwn(checkpointPath(directory, other)));
  }
  return {};
}

namespace {

// "'a', 'b' and 3 more"
std::string listOf(const std::vector<std::string>& names) {
  constexpr size_t kMostNames = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > kMostNames ? text + " and " + std::to_string(names.size() - kMostNames) + " more" : text;
}

// What others have put into the checkpoint that was replaced goes to where it was.
void putBack(const std::string& old, const std::string& target, const Warn& warn) {
  const std::vector<std::string> names = foreignIn(old, isCheckpointFileName);
  for (const std::string& name : names) rename((old + "/" + name).c_str(), (target + "/" + name).c_str());
  if (rmdir(old.c_str()) == 0) {
    return warn("'" + target + "' is replaced; what others have put into it stays there: " + listOf(names));
  }
  warn("what '" + target + "' held before is left in '" + old + "', which cannot be removed: " + std::strerror(errno));
}

}  // namespace

Status publishCheckpoint(const std::string& partial, const std::string& target, IoFaults* faults, const Warn& warn) {
  HYCRT_RETURN_IF_ERROR(syncFolder(partial, faults));
  struct stat info;
  const bool isThere = lstat(target.c_str(), &info) == 0;
  if (isThere && !S_ISDIR(info.st_mode)) return ioError("'" + target + "' is a link or no folder, expected a folder");
  if (isThere) {
    // It has come there since the run has begun.
    if (const Status own = checkIsOwn(target); !own.ok()) return ioError(own.message());
  }
  HYCRT_RETURN_IF_ERROR(faultOf(faults, IoOperation::kRename, "cannot rename to '" + target + "'"));
  if (isThere) {
    std::string left;
    HYCRT_RETURN_IF_ERROR(exchangeFolder(partial, target, "the new checkpoint", isCheckpointFileName, &left));
    if (!left.empty()) putBack(left, target, warn);
    return {};
  }
  if (rename(partial.c_str(), target.c_str()) != 0) return errnoError("cannot rename to '" + target + "'", errno);
  return syncFolderOf(target);
}

namespace {

void removeCheckpoint(const std::string& path, const Warn& warn) {
  // Not a checkpoint any more before anything of it is gone.
  const std::string doomed = partialName(path, "hyc-" + makeName());
  if (rename(path.c_str(), doomed.c_str()) != 0) {
    return warn("cannot remove the old checkpoint '" + path + "', which stays: " + std::strerror(errno));
  }
  if (removeOwnFolder(doomed, isCheckpointFileName)) return;
  const std::string why = std::strerror(errno);
  const std::vector<std::string> names = foreignIn(doomed, isCheckpointFileName);
  const std::string left = rename(doomed.c_str(), path.c_str()) == 0 ? path : doomed;
  if (names.empty()) return warn("cannot remove all of the old checkpoint '" + left + "': " + why);
  warn("the old checkpoint '" + path + "' is removed; what others have put into it stays in '" + left +
       "': " + listOf(names));
}

}  // namespace

void removeOldCheckpoints(const std::string& directory, int64_t step, int64_t keep, const Warn& warn) {
  if (keep == 0) return;
  Result<std::vector<int64_t>> steps = stepsIn(directory);
  if (!steps.ok()) return warn("old checkpoints are not removed: " + steps.status().message());
  int64_t kept = 0;
  for (int64_t other : *steps) {
    const std::string path = checkpointPath(directory, other);
    if (other > step || !checkIsOwn(path).ok() || kept++ < keep) continue;
    removeCheckpoint(path, warn);
  }
}

}  // namespace hycrt
