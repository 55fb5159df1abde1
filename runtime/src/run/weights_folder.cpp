// Folders of weights that transformers loads: checked, then written aside and renamed.
#include "run/weights_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "comm/exchanger.h"
#include "hycrt/safetensors.h"
#include "hycrt/saved_weights.h"
#include "run/state_file.h"

namespace hycrt {
namespace {

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kConfig = "config.json";
constexpr int64_t kMaxConfigBytes = 16 << 20;
constexpr mode_t kFolderMode = 0755, kFileMode = 0644;

std::string withoutSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string partialFolder(const std::string& target) { return withoutSlash(target) + kPartialSuffix; }

// The first entry of a folder that saving would not have put there; empty where there is none.
Result<std::string> foreignEntry(const std::string& folder) {
  DIR* entries = opendir(folder.c_str());
  if (entries == nullptr) return errnoError("cannot read the folder '" + folder + "'", errno);
  std::string found;
  while (const dirent* entry = readdir(entries)) {
    const std::string name = entry->d_name;
    const std::string own[] = {".", "..", kWeights, kConfig, std::string(kWeights) + kPartialSuffix};
    if (std::find(std::begin(own), std::end(own), name) == std::end(own)) found = name;
  }
  closedir(entries);
  return found;
}

// Only what saving puts into a folder goes; one with anything else in it stays.
void removeFolder(const std::string& folder) {
  for (const std::string& name : {std::string(kWeights), std::string(kConfig), std::string(kWeights) + kPartialSuffix})
    unlink((folder + "/" + name).c_str());
  rmdir(folder.c_str());
}

Status copyConfig(const std::string& from, const std::string& folder) {
  if (access(from.c_str(), F_OK) != 0) return {};
  Result<std::string> text = readWholeFile(from, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  const std::string path = folder + "/" + kConfig;
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode));
  if (!file.isOpen()) return errnoError("cannot create '" + path + "'", errno);
  HYCRT_RETURN_IF_ERROR(writeAt(file, path, text->data(), static_cast<int64_t>(text->size()), 0));
  if (fsync(file.get()) != 0) return errnoError("cannot sync '" + path + "'", errno);
  return syncFolderOf(path);
}

Status makeFolder(const std::string& folder) {
  removeFolder(folder);  // of a run that was killed
  if (mkdir(folder.c_str(), kFolderMode) != 0) return errnoError("cannot create the folder '" + folder + "'", errno);
  return {};
}

// One step, whatever was there before; that goes afterwards.
Status publish(const std::string& partial, const std::string& target) {
  if (access(target.c_str(), F_OK) != 0) {
    if (rename(partial.c_str(), target.c_str()) != 0) return errnoError("cannot rename to '" + target + "'", errno);
    return syncFolderOf(target);
  }
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) {
    return errnoError("cannot put the new weights in the place of '" + target + "'; name a new folder", errno);
  }
  removeFolder(partial);
  return syncFolderOf(target);
}

}  // namespace

bool isWeightsFile(const std::string& target) {
  constexpr std::string_view ending = ".safetensors";
  return target.size() > ending.size() && target.compare(target.size() - ending.size(), ending.size(), ending) == 0;
}

std::vector<std::string> filesOfWeights(const std::string& target) {
  if (isWeightsFile(target)) return {target};
  return {withoutSlash(target), withoutSlash(target) + "/" + kWeights, withoutSlash(target) + "/" + kConfig};
}

Status checkWeightsTarget(const std::string& target) {
  if (isWeightsFile(target)) return checkWritable(target);
  const std::string folder = withoutSlash(target);
  struct stat info;
  if (stat(folder.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) {
      return ioError("--save-weights '" + target +
                     "' is not a folder; a file's name ends in .safetensors, any other is a folder's");
    }
    Result<std::string> foreign = foreignEntry(folder);
    if (!foreign.ok()) return foreign.status();
    if (!foreign->empty()) {
      return ioError("--save-weights '" + target + "' holds '" + *foreign +
                     "', which saving would remove; name a new folder");
    }
  }
  return checkFolderWritable(folder);
}

void removePartialWeights(const std::string& target) {
  if (isWeightsFile(target)) {
    unlink((target + kPartialSuffix).c_str());
  } else {
    removeFolder(partialFolder(target));
  }
}

Status saveWeights(Context& ctx, const std::string& target, const std::string& configFile) {
  if (isWeightsFile(target)) return saveStates(ctx, "parameter", target, {});
  const std::string partial = partialFolder(target);
  const bool leads = rankOf(ctx.mesh(), ctx.at()) == 0;
  const auto run = [&]() -> Status {
    if (leads) HYCRT_RETURN_IF_ERROR(makeFolder(partial));
    // saveStates begins with rank 0 alone, and its barriers keep the others until there is a file.
    HYCRT_RETURN_IF_ERROR(saveStates(ctx, "parameter", partial + "/" + kWeights, {}));
    if (!leads) return {};
    HYCRT_RETURN_IF_ERROR(copyConfig(configFile, partial));
    return publish(partial, withoutSlash(target));
  };
  Status status = run();
  if (!status.ok() && leads) removeFolder(partial);
  return status;
}

}  // namespace hycrt
