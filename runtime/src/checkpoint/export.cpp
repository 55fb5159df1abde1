// Slices put together, a tensor at a time.
#include "checkpoint/export.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "checkpoint/state_names.h"
#include "checkpoint/stream_file.h"
#include "hycrt/safetensors.h"
#include "hycrt/saved_weights.h"
#include "hycrt/token.h"
#include "io/float_convert.h"
#include "io/saved_adapter.h"
#include "io/weights_files.h"

namespace hycrt {
namespace {

// The tensors of a checkpoint that go into a file: under which names (none: it is left out), and as what.
struct Selection {
  std::function<std::string(const std::string&)> nameOf;
  std::function<Status(const std::string&, const CheckpointTensor&, std::vector<std::byte>*)> change;
};

Status writeTensors(const Checkpoint& checkpoint, const Selection& selection, const std::string& path) {
  TensorDirectory directory;
  std::map<std::string, std::string> source;
  for (const auto& [name, tensor] : checkpoint.manifest.parts.tensors) {
    const std::string given = selection.nameOf(name);
    if (given.empty()) continue;
    source[given] = name;
    directory[given].dtype = tensor.dtype;
    directory[given].shape.assign(tensor.shape.begin(), tensor.shape.end());
  }
  const std::string header = encodeSafetensorsHeader(&directory);
  Result<StreamFile> file = StreamFile::create(path, nullptr);
  if (!file.ok()) return file.status();
  HYCRT_RETURN_IF_ERROR(file->write(header.data(), static_cast<int64_t>(header.size())));
  std::vector<std::byte> whole;
  for (const auto& [name, entry] : directory) {
    const CheckpointTensor& tensor = checkpoint.manifest.parts.tensors.at(source.at(name));
    HYCRT_RETURN_IF_ERROR(readWholeTensor(checkpoint, tensor, &whole));
    if (selection.change) HYCRT_RETURN_IF_ERROR(selection.change(name, tensor, &whole));
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

const Adapter* adapterOf(const Checkpoint& checkpoint) {
  const std::optional<CheckpointTraining>& training = checkpoint.manifest.training;
  return training && training->adapter ? &*training->adapter : nullptr;
}

std::string partOfAdapter(const Adapter& adapter, const std::string& name) {
  return isParameterName(name) ? nameInAdapter(adapter, name) : std::string();
}

// Adapters go into the file `path`.aside first, from which AdapterMerge takes them.
Status writeMerged(const Checkpoint& checkpoint, const std::string& path) {
  const Adapter& adapter = *adapterOf(checkpoint);
  const std::string aside = path + kAside;
  Status status =
      writeTensors(checkpoint, {[&](const std::string& name) { return partOfAdapter(adapter, name); }, nullptr}, aside);
  Result<AdapterMerge> merge = status.ok() ? AdapterMerge::open(adapter, aside) : Result<AdapterMerge>(status);
  if (merge.ok()) {
    std::vector<float> wide;
    const auto add = [&](const std::string& name, const CheckpointTensor& tensor, std::vector<std::byte>* whole) {
      if (!canConvert(tensor.dtype, DType::kF32) || tensor.dtype == DType::kF64) return Status();
      const int64_t count = elementCount(tensor.shape);
      wide.resize(static_cast<size_t>(count));
      std::byte* const bytes = reinterpret_cast<std::byte*>(wide.data());
      convertFloats(whole->data(), tensor.dtype, bytes, DType::kF32, count);
      HYCRT_RETURN_IF_ERROR(merge->add(name, 0, count, wide.data()));
      convertFloats(bytes, DType::kF32, whole->data(), tensor.dtype, count);
      return Status();
    };
    const auto nameOf = [&](const std::string& name) {
      return isParameterName(name) ? nameInModel(adapter, name) : std::string();
    };
    status = writeTensors(checkpoint, {nameOf, add}, path);
    if (status.ok()) status = merge->toLengths(path, FolderLink::kFollow, 0, 1);
  }
  unlink(aside.c_str());
  return merge.ok() ? status : merge.status();
}

Status writeTensors(const Checkpoint& checkpoint, Exported what, const std::string& path) {
  if (what == Exported::kMerged) return writeMerged(checkpoint, path);
  const Adapter* const adapter = what == Exported::kWeights ? adapterOf(checkpoint) : nullptr;
  const auto nameOf = [&](const std::string& name) {
    if (adapter) return partOfAdapter(*adapter, name);
    return what == Exported::kStates || isParameterName(name) ? name : std::string();
  };
  return writeTensors(checkpoint, {nameOf, nullptr}, path);
}

// `config`: the text of one, or empty.
Status writeFolder(const Checkpoint& checkpoint, Exported what, const std::string& folder, const std::string& config) {
  const bool ofAdapter = what == Exported::kWeights && adapterOf(checkpoint);
  const WeightsFiles& files = weightsFiles(ofAdapter);
  HYCRT_RETURN_IF_ERROR(writeTensors(checkpoint, what, folder + "/" + files.weights));
  const std::string& told = ofAdapter ? checkpoint.manifest.training->adapterConfig : config;
  return told.empty() ? Status() : writeTextFile(folder + "/" + files.config, told);
}

// Of weights that were kept as codes a checkpoint has nothing to add to.
Status checkMerges(const Checkpoint& checkpoint, const Adapter& adapter, const std::string& asSaved) {
  for (const AdapterLayer& layer : adapter.layers) {
    if (checkpoint.manifest.parts.tensors.count(layer.path + ".weight") > 0) continue;
    return dataError("'" + checkpoint.folder + "' lacks '" + layer.path +
                     ".weight', which was kept as codes (--frozen-weights), so that nothing can be merged; " + asSaved +
                     " --merge, or export the adapter alone");
  }
  return {};
}

// What neither transformers nor peft would take for what it is.
Status checkAdapter(const Checkpoint& checkpoint, Exported what, const std::string& config) {
  if (what == Exported::kStates) return {};
  const std::string asSaved = "train no step more and save them: hyc-run OUT --resume '" + checkpoint.folder +
                              "' --steps " + std::to_string(checkpoint.manifest.step) + " --save-weights TARGET";
  if (const Adapter* const adapter = adapterOf(checkpoint)) {
    if (what == Exported::kMerged) return checkMerges(checkpoint, *adapter, asSaved);
    if (!config.empty()) {
      return usageError("--config is for a model's weights, but '" + checkpoint.folder +
                        "' is of adapters, whose adapter_config.json it has itself; give --merge for the whole "
                        "weights, or leave --config out");
    }
    if (adapter->tied.empty()) return {};
    return dataError("'" + checkpoint.folder + "' trains '" + adapter->tied[0] +
                     "' whole, as the embedding and as the output, of which peft makes two, so that no adapter can "
                     "hold it; give --merge for the whole weights");
  }
  if (what == Exported::kMerged) {
    return usageError("--merge is given, but '" + checkpoint.folder + "' tells of no adapters; leave it out" +
                      (checkpoint.manifest.training ? "" : ", or " + asSaved + " --merge"));
  }
  if (checkpoint.manifest.training) return {};
  for (const auto& [name, tensor] : checkpoint.manifest.parts.tensors) {
    if (!isParameterName(name) || !isNameOfAdapter(name)) continue;
    return dataError("'" + checkpoint.folder + "' has adapters ('" + name +
                     "'), and is of a version that did not tell how they are scaled: its weights alone would be the "
                     "model without them; " +
                     asSaved + " [--merge]. --states exports all tensors as they are");
  }
  return {};
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
  HYCRT_RETURN_IF_ERROR(createFolder(partial));
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
  HYCRT_RETURN_IF_ERROR(checkAdapter(checkpoint, what, config));
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
