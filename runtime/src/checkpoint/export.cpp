// Slices put together, a tensor at a time.
#include "checkpoint/export.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "checkpoint/state_names.h"
#include "checkpoint/stream_file.h"
#include "hycrt/safetensors.h"
#include "hycrt/saved_weights.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr const char *kWeights = "model.safetensors", *kConfig = "config.json";
constexpr int64_t kMaxConfigBytes = 16 << 20;
constexpr mode_t kFolderMode = 0755;

Status writeTensors(const Checkpoint& checkpoint, Exported what, const std::string& path) {
  TensorDirectory directory;
  for (const auto& [name, tensor] : checkpoint.manifest.parts.tensors) {
    if (what == Exported::kWeights && !isParameterName(name)) continue;
    directory[name].dtype = tensor.dtype;
    directory[name].shape.assign(tensor.shape.begin(), tensor.shape.end());
  }
  const std::string header = encodeSafetensorsHeader(&directory);
  Result<StreamFile> file = StreamFile::create(path, nullptr);
  if (!file.ok()) return file.status();
  HYCRT_RETURN_IF_ERROR(file->write(header.data(), static_cast<int64_t>(header.size())));
  std::vector<std::byte> whole;
  for (const auto& [name, entry] : directory) {
    HYCRT_RETURN_IF_ERROR(readWholeTensor(checkpoint, checkpoint.manifest.parts.tensors.at(name), &whole));
    HYCRT_RETURN_IF_ERROR(file->write(whole.data(), static_cast<int64_t>(whole.size())));
  }
  return file->finish(header).status();
}

// The text of a model's config.json.
Result<std::string> readConfig(const std::string& path) {
  Result<std::string> text = readWholeFile(path, kMaxConfigBytes);
  if (!text.ok()) return text;
  const Result<nlohmann::json> root = parseJson(*text, "'" + path + "' (--config)");
  if (!root.ok()) return root.status();
  if (root->is_object()) return text;
  return dataError("'" + path + "' (--config) holds " + root->type_name() + ", expected an object, as config.json is");
}

Status writeFolder(const Checkpoint& checkpoint, Exported what, const std::string& folder, const std::string& config) {
  HYCRT_RETURN_IF_ERROR(writeTensors(checkpoint, what, folder + "/" + kWeights));
  if (config.empty()) return {};
  Result<StreamFile> file = StreamFile::create(folder + "/" + kConfig, nullptr);
  if (!file.ok()) return file.status();
  HYCRT_RETURN_IF_ERROR(file->write(config.data(), static_cast<int64_t>(config.size())));
  return file->finish("").status();
}

// Nothing but what this export has made is in it.
void removeFolder(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

Status checkTarget(const Checkpoint& checkpoint, const std::string& target) {
  struct stat info;
  if (lstat(target.c_str(), &info) == 0) return ioError("'" + target + "' is there already; name a new file or folder");
  HYCRT_RETURN_IF_ERROR(checkFolderWritable(target));
  return verifyCheckpoint(checkpoint);
}

}  // namespace

// Slices fill the tensor, so that it has no more bytes than their files.
Status readWholeTensor(const Checkpoint& checkpoint, const CheckpointTensor& tensor, std::vector<std::byte>* whole) {
  const int64_t size = sizeOf(tensor.dtype);
  whole->assign(static_cast<size_t>(elementCount(tensor.shape) * size), std::byte{0});
  std::vector<std::byte> part;
  for (const CheckpointSlice& slice : tensor.slices) {
    Result<FileDescriptor> file = openCheckpointFile(checkpoint.folder, slice.file);
    if (!file.ok()) return file.status();
    const BoxRows rows(slice.box, tensor.shape);
    part.resize(static_cast<size_t>(rows.elements() * size));
    HYCRT_RETURN_IF_ERROR(readAt(*file, checkpoint.folder + "/" + slice.file, part.data(),
                                 static_cast<int64_t>(part.size()), slice.byte));
    for (int64_t element = 0; element < rows.elements();) {
      const BoxRow row = rows.rowFrom(element);
      std::memcpy(whole->data() + row.global * size, part.data() + element * size,
                  static_cast<size_t>(row.count * size));
      element += row.count;
    }
  }
  return {};
}

Status exportFolder(const Checkpoint& checkpoint, const std::string& target,
                    const std::function<Status(const std::string&)>& write) {
  HYCRT_RETURN_IF_ERROR(checkTarget(checkpoint, target));
  const std::string partial = partialName(target, "hyc-" + makeName());
  if (mkdir(partial.c_str(), kFolderMode) != 0) return errnoError("cannot create the folder '" + partial + "'", errno);
  Status status = write(partial);
  if (status.ok()) status = syncFolder(partial, nullptr);
  if (status.ok() && rename(partial.c_str(), target.c_str()) != 0) {
    status = errnoError("cannot rename to '" + target + "'", errno);
  }
  if (status.ok()) return syncFolderOf(target);
  removeFolder(partial);
  return status;
}

Status exportTensors(const Checkpoint& checkpoint, Exported what, const std::string& target,
                     const std::string& config) {
  const bool isFile = isWeightsFile(target);
  if (isFile && !config.empty()) return usageError("--config goes into a folder, but '" + target + "' names a file");
  if (!isFile) {
    const Result<std::string> text = config.empty() ? Result<std::string>(std::string()) : readConfig(config);
    if (!text.ok()) return text.status();
    return exportFolder(checkpoint, target,
                        [&](const std::string& folder) { return writeFolder(checkpoint, what, folder, *text); });
  }
  HYCRT_RETURN_IF_ERROR(checkTarget(checkpoint, target));
  const std::string partial = partialName(target, "hyc-" + makeName());
  Status status = writeTensors(checkpoint, what, partial);
  if (status.ok()) status = publishFile(partial, target);
  if (!status.ok()) unlink(partial.c_str());
  return status;
}

}  // namespace hycrt
