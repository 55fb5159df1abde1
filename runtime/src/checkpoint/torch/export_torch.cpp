// Names, pickles and archives of what is exported.
#include "checkpoint/torch/export_torch.h"

#include <cmath>
#include <cstring>

#include "base/file.h"
#include "checkpoint/export.h"
#include "checkpoint/part_writer.h"
#include "checkpoint/state_names.h"

namespace hycrt {
namespace {

constexpr const char *kMetadataModule = "torch.distributed.checkpoint.metadata", *kFile = "__0_0.distcp";

// Where one tensor went.
struct Stored {
  std::string name;
  std::vector<std::string> path;  // of keys in the state dict
  DType dtype;
  Shape shape;
  int64_t begin, bytes;
};

void addPrefix(const std::string& prefix, std::vector<std::string>* path) {
  for (size_t at = 0; at < prefix.size();) {
    const size_t dot = std::min(prefix.find('.', at), prefix.size());
    if (dot > at) path->push_back(prefix.substr(at, dot - at));
    at = dot + 1;
  }
}

Stored nameStored(const StateName& state, const CheckpointTensor& tensor, const ForeignNames& names) {
  Stored stored{"", {}, tensor.dtype, tensor.shape, 0, 0};
  if (state.key.empty()) {
    addPrefix(names.weights, &stored.path);
    stored.path.push_back(state.parameter);
    stored.name = names.weights + state.parameter;
    return stored;
  }
  addPrefix(names.optimizer, &stored.path);
  stored.path.insert(stored.path.end(), {"state", state.parameter, state.key});
  stored.name = names.optimizer + "state." + state.parameter + "." + state.key;
  return stored;
}

void writeProperties(const Stored& stored, PickleWriter* pickle) {
  pickle->makeObject(kMetadataModule, "TensorProperties");
  pickle->openTuple();
  pickle->name("torch", torchName(stored.dtype));
  pickle->name("torch.serialization", "_get_layout");
  pickle->openTuple();
  pickle->text("torch.strided");
  pickle->closeTuple();
  pickle->call();
  pickle->boolean(false);
  pickle->name(kMetadataModule, "_MEM_FORMAT_ENCODING");
  pickle->openTuple();
  pickle->integer(0);
  pickle->closeTuple();
  pickle->call();
  pickle->boolean(false);
  pickle->closeTuple();
  pickle->setState();
}

Shape beginOf(const Shape& shape) {
  Shape begin = shape;
  for (int dim = 0; dim < shape.size; ++dim) begin.items[dim] = 0;
  return begin;
}

void writeTensorMetadata(const Stored& stored, PickleWriter* pickle) {
  pickle->openObject(kMetadataModule, "TensorStorageMetadata");
  pickle->text("properties");
  writeProperties(stored, pickle);
  pickle->text("size");
  writeShape(stored.shape, pickle);
  pickle->text("chunks");
  pickle->openList();
  pickle->openObject(kMetadataModule, "ChunkStorageMetadata");
  pickle->text("offsets");
  writeShape(beginOf(stored.shape), pickle);
  pickle->text("sizes");
  writeShape(stored.shape, pickle);
  pickle->closeObject();
  pickle->closeList();
  pickle->closeObject();
}

void writePlace(const Stored& stored, PickleWriter* pickle) {
  pickle->openObject(kMetadataModule, "MetadataIndex");
  pickle->text("fqn");
  pickle->text(stored.name);
  pickle->text("index");
  pickle->integer(0);
  pickle->text("offset");
  writeShape(beginOf(stored.shape), pickle);
  pickle->closeObject();
  pickle->openObject("torch.distributed.checkpoint.filesystem", "_StorageInfo");
  pickle->text("relative_path");
  pickle->text(kFile);
  pickle->text("offset");
  pickle->integer(stored.begin);
  pickle->text("length");
  pickle->integer(stored.bytes);
  pickle->closeObject();
}

std::string encodeMetadata(const std::vector<Stored>& all) {
  PickleWriter pickle;
  pickle.openObject(kMetadataModule, "Metadata");
  pickle.text("state_dict_metadata");
  pickle.openDict();
  for (const Stored& stored : all) {
    pickle.text(stored.name);
    writeTensorMetadata(stored, &pickle);
  }
  pickle.closeDict();
  pickle.text("planner_data");
  pickle.openDict();
  for (const Stored& stored : all) {
    pickle.text(stored.name);
    pickle.openTuple();
    for (const std::string& key : stored.path) pickle.text(key);
    pickle.closeTuple();
  }
  pickle.closeDict();
  pickle.text("storage_data");
  pickle.openDict();
  for (const Stored& stored : all) writePlace(stored, &pickle);
  pickle.closeDict();
  for (const char* key : {"storage_meta", "version"}) {
    pickle.text(key);
    pickle.none();
  }
  pickle.closeObject();
  return pickle.finish();
}

Status writeDistributed(const Checkpoint& checkpoint, const std::string& folder, const ForeignNames& names) {
  Result<StreamFile> file = StreamFile::create(folder + "/" + kFile, nullptr);
  if (!file.ok()) return file.status();
  std::vector<Stored> all;
  std::vector<std::byte> whole;
  for (const auto& [name, tensor] : checkpoint.manifest.parts.tensors) {
    const std::optional<StateName> state = splitStateName(name);
    if (!state) continue;
    Stored stored = nameStored(*state, tensor, names);
    HYCRT_RETURN_IF_ERROR(readWholeTensor(checkpoint, tensor, &whole));
    PickleWriter pickle;
    writeTensor(tensor.dtype, tensor.shape, &pickle);
    stored.begin = file->position();
    HYCRT_RETURN_IF_ERROR(writeTorchFile(pickle.finish(), whole, &*file));
    stored.bytes = file->position() - stored.begin;
    all.push_back(std::move(stored));
  }
  HYCRT_RETURN_IF_ERROR(file->finish("").status());
  return writeTextFile(folder + "/.metadata", encodeMetadata(all));
}

// --------------------------------------------------------------------------------------------------- DeepSpeed's
// folder

Status writePt(const std::string& path, const std::string& pickle, const std::vector<std::byte>& storage) {
  Result<StreamFile> file = StreamFile::create(path, nullptr);
  if (!file.ok()) return file.status();
  HYCRT_RETURN_IF_ERROR(writeTorchFile(pickle, storage, &*file));
  return file->finish("").status();
}

// What merging slices of tensor-parallel ranks leaves: the tensor, and along which dimension they were.
Status writeParameterState(const std::string& path, const CheckpointTensor& tensor,
                           const std::vector<std::byte>& whole) {
  PickleWriter pickle;
  pickle.openDict();
  pickle.text("param");
  writeTensor(tensor.dtype, tensor.shape, &pickle);
  pickle.text("cat_dim");
  pickle.integer(0);
  pickle.closeDict();
  return writePt(path, pickle.finish(), whole);
}

Status writeCount(const std::string& path, const std::vector<std::byte>& whole, UpdateCount kind) {
  Result<int64_t> count = updatesIn(DType::kF32, whole, "'" + path + "'");
  if (!count.ok()) return count.status();
  PickleWriter pickle;
  if (kind == UpdateCount::kTensor) {
    writeTensor(DType::kF32, {}, &pickle);
    return writePt(path, pickle.finish(), whole);
  }
  pickle.integer(*count);
  return writePt(path, pickle.finish(), {});
}

Status writeUniversal(const Checkpoint& checkpoint, const std::string& folder, const ForeignNames& names,
                      UpdateCount count) {
  const std::string zero = folder + "/zero";
  HYCRT_RETURN_IF_ERROR(makeFolders(zero));
  std::vector<std::byte> whole;
  std::vector<std::string> folders;
  for (const auto& [name, tensor] : checkpoint.manifest.parts.tensors) {
    const std::optional<StateName> state = splitStateName(name);
    if (!state) continue;
    const std::string own = zero + "/" + names.weights + state->parameter;
    if (own.find('/', zero.size() + 1) != own.npos) {
      return dataError("'" + name + "' is no name of a folder, which DeepSpeed has for each parameter");
    }
    HYCRT_RETURN_IF_ERROR(makeFolders(own));
    if (state->key.empty()) folders.push_back(own);
    HYCRT_RETURN_IF_ERROR(readWholeTensor(checkpoint, tensor, &whole));
    HYCRT_RETURN_IF_ERROR(state->key == "step" ? writeCount(own + "/step.pt", whole, count)
                          : state->key.empty() ? writeParameterState(own + "/fp32.pt", tensor, whole)
                                               : writeParameterState(own + "/" + state->key + ".pt", tensor, whole));
  }
  for (const std::string& own : folders) HYCRT_RETURN_IF_ERROR(syncFolder(own, nullptr));
  return syncFolder(zero, nullptr);
}

}  // namespace

Status exportDistributed(const Checkpoint& checkpoint, const std::string& target, const ForeignNames& names) {
  return exportFolder(checkpoint, target,
                      [&](const std::string& folder) { return writeDistributed(checkpoint, folder, names); });
}

Status exportUniversal(const Checkpoint& checkpoint, const std::string& target, const ForeignNames& names,
                       UpdateCount count) {
  return exportFolder(checkpoint, target,
                      [&](const std::string& folder) { return writeUniversal(checkpoint, folder, names, count); });
}

}  // namespace hycrt
