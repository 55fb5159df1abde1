// Finding, checking, publishing and removing checkpoints.
#include "checkpoint/checkpoint_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <omp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/crc32c.h"
#include "base/limits.h"
#include "base/secret.h"
#include "base/staged_folder.h"
#include "checkpoint/stream_file.h"
#include "hycrt/safetensors.h"

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

Status verifyFile(const Checkpoint& checkpoint, const std::string& name, const CheckpointFile& file) {
  const std::string path = checkpoint.folder + "/" + name;
  Result<FileDescriptor> opened = openCheckpointFile(checkpoint.folder, name);
  if (!opened.ok()) return opened.status();
  std::vector<std::byte> chunk(static_cast<size_t>(std::min(kChunkBytes, file.sums.bytes)));
  Sha256 sha;
  for (size_t i = 0; i < file.sums.chunks.size(); ++i) {
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
  DIR* entries = opendir(directory.c_str());
  if (entries == nullptr) return errnoError("cannot read the folder '" + directory + "'", errno);
  std::vector<int64_t> steps;
  while (const dirent* entry = readdir(entries)) {
    struct stat info;
    const int64_t step = stepOfName(entry->d_name);
    if (step < 0 || lstat(checkpointPath(directory, step).c_str(), &info) != 0) continue;
    if (S_ISDIR(info.st_mode)) steps.push_back(step);
  }
  closedir(entries);
  std::sort(steps.rbegin(), steps.rend());
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

bool isCheckpoint(const std::string& path) {
  struct stat info;
  return stepOfName(nameIn(path)) >= 0 || lstat((path + "/" + kCheckpointManifest).c_str(), &info) == 0;
}

Result<Checkpoint> newestCheckpoint(const std::string& directory, bool verifies,
                                    const std::function<void(const std::string&)>& skipped,
                                    const std::function<bool(int64_t)>& isWanted) {
  Result<std::vector<int64_t>> steps = stepsIn(directory);
  if (!steps.ok()) return steps.status();
  if (isWanted) {
    steps->erase(std::remove_if(steps->begin(), steps->end(), [&](int64_t step) { return !isWanted(step); }),
                 steps->end());
  }
  for (int64_t step : *steps) {
    Result<Checkpoint> checkpoint = openCheckpoint(checkpointPath(directory, step));
    const Status status = !checkpoint.ok() ? checkpoint.status() : verifies ? verifyCheckpoint(*checkpoint) : Status();
    if (status.ok()) return checkpoint;
    // What may not be read is no reason to go back.
    if (status.code() != StatusCode::kData) return status;
    skipped(status.message());
  }
  const std::string found = steps->empty()
                                ? "holds no checkpoint, expected folders step-N"
                                : "holds " + std::to_string(steps->size()) + " checkpoints, none of them whole";
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

Status verifyCheckpoint(const Checkpoint& checkpoint) {
  std::vector<std::pair<std::string, const CheckpointFile*>> files;
  for (const auto& [name, file] : checkpoint.manifest.parts.files) files.emplace_back(name, &file);
  std::atomic<size_t> next{0}, failed{files.size()};
  std::mutex mutex;
  Status status;
  const auto work = [&] {
    for (size_t i = next++; i < files.size() && i < failed; i = next++) {
      Status own = verifyFile(checkpoint, files[i].first, *files[i].second);
      if (own.ok()) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      if (i < failed) failed = i, status = std::move(own);
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min(files.size(), static_cast<size_t>(omp_get_max_threads())); ++i) {
    std::thread other;
    if (!startThread("verifying a checkpoint", work, &other).ok()) break;  // fewer will do
    others.push_back(std::move(other));
  }
  work();
  for (std::thread& thread : others) thread.join();
  return status;
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

Status publishCheckpoint(const std::string& partial, const std::string& target, IoFaults* faults) {
  HYCRT_RETURN_IF_ERROR(syncFolder(partial, faults));
  struct stat info;
  const bool isThere = lstat(target.c_str(), &info) == 0;
  if (isThere && !S_ISDIR(info.st_mode)) return ioError("'" + target + "' is a link or no folder, expected a folder");
  HYCRT_RETURN_IF_ERROR(faultOf(faults, IoOperation::kRename, "cannot rename to '" + target + "'"));
  if (isThere) return exchangeFolder(partial, target, "the new checkpoint", isCheckpointFileName);
  if (rename(partial.c_str(), target.c_str()) != 0) return errnoError("cannot rename to '" + target + "'", errno);
  return syncFolderOf(target);
}

Status removeOldCheckpoints(const std::string& directory, int64_t step, int64_t keep, const std::string& run) {
  Result<std::vector<int64_t>> steps = stepsIn(directory);
  if (!steps.ok()) return steps.status();
  steps->erase(std::remove_if(steps->begin(), steps->end(), [step](int64_t other) { return other > step; }),
               steps->end());
  for (size_t i = static_cast<size_t>(keep); keep > 0 && i < steps->size(); ++i) {
    // Not a checkpoint any more before anything of it is gone.
    const std::string path = checkpointPath(directory, (*steps)[i]), doomed = partialName(path, run);
    if (rename(path.c_str(), doomed.c_str()) != 0) return errnoError("cannot remove '" + path + "'", errno);
    removeCheckpointFolder(doomed);
  }
  return {};
}

}  // namespace hycrt
