// PyTorch's distributed checkpoint: .metadata, a pickle of a torch.distributed.checkpoint.metadata.Metadata, says which
// tensors there are, in which rectangles, and in which bytes of which file each is, in the form of torch.save.
#include <algorithm>
#include <tuple>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/torch/foreign_states.h"

namespace hycrt {
namespace {

using Value = Pickle::Value;

constexpr const char* kMetadata = ".metadata";
constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";
constexpr size_t kMostTold = 8;

bool beginsWith(std::string_view text, std::string_view begin) { return text.substr(0, begin.size()) == begin; }

class MetadataReader {
 public:
  MetadataReader(const std::string& folder, const ForeignNames& names, const Pickle& pickle)
      : names_(names), pickle_(pickle), path_(folder + "/" + kMetadata) {
    states_.kind = "PyTorch's distributed checkpoint";
    states_.folder = folder;
  }

  Result<ForeignStates> read() {
    const Value root = pickle_.root();
    if (!isA(root, "Metadata")) return wrong("it is no " + std::string(kModule) + ".Metadata");
    const auto tensors = pickle_.find(root, "state_dict_metadata"), storage = pickle_.find(root, "storage_data");
    if (!tensors || !storage) return wrong("it has no state_dict_metadata or no storage_data");
    HYCRT_RETURN_IF_ERROR(readStorage(*storage));
    const std::vector<Value>& items = pickle_.itemsOf(*tensors);
    for (size_t i = 0; i + 1 < items.size(); i += 2) HYCRT_RETURN_IF_ERROR(readTensor(items[i], items[i + 1]));
    HYCRT_RETURN_IF_ERROR(checkNames());
    HYCRT_RETURN_IF_ERROR(checkBytes());
    return std::move(states_);
  }

 private:
  using Place = std::pair<std::string, std::vector<int64_t>>;  // a tensor's name, and where a part of it begins

  Status wrong(const std::string& what) const { return dataError("'" + path_ + "': " + what); }
  bool isA(Value value, std::string_view name) const {
    return pickle_.kindOf(value) == Pickle::Kind::kRecord &&
           pickle_.nameOf(value).substr(0, kModule.size()) == kModule &&
           pickle_.nameOf(value).substr(kModule.size() + 1) == name;
  }
  std::optional<Shape> shapeIn(Value record, std::string_view key) const {
    const std::optional<Value> value = pickle_.find(record, key);
    return value ? shapeOf(pickle_, *value) : std::nullopt;
  }
  std::optional<int64_t> numberIn(Value record, std::string_view key) const {
    const std::optional<Value> value = pickle_.find(record, key);
    const std::optional<int64_t> number = value ? pickle_.integerOf(*value) : std::nullopt;
    return number && *number >= 0 ? number : std::nullopt;
  }
  std::string textIn(Value record, std::string_view key) const {
    const std::optional<Value> value = pickle_.find(record, key);
    return std::string(value ? pickle_.textOf(*value).value_or("") : "");
  }

  Status readStorage(Value storage) {
    const std::vector<Value>& items = pickle_.itemsOf(storage);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const std::string name = textIn(items[i], "fqn");
      const std::optional<Shape> offset = shapeIn(items[i], "offset");
      if (!offset) continue;  // not of a tensor
      ForeignPart part;
      part.folder = states_.folder;
      part.file = textIn(items[i + 1], "relative_path");
      const auto begin = numberIn(items[i + 1], "offset"), bytes = numberIn(items[i + 1], "length");
      if (part.file.empty() || !begin || !bytes) return wrong("where '" + name + "' is stored is not told");
      if (part.file.find_first_of(std::string_view("/\0", 2)) != part.file.npos || part.file == "..") {
        return wrong("'" + name + "' is stored in '" + part.file + "', expected a file of this folder");
      }
      const std::optional<Value> transforms = pickle_.find(items[i + 1], "transform_descriptors");
      if (transforms && !pickle_.itemsOf(*transforms).empty()) {
        return wrong("'" + name + "' is stored compressed or encrypted; save it without extensions");
      }
      part.begin = *begin, part.bytes = *bytes;
      places_[{name, {offset->begin(), offset->end()}}] = std::move(part);
    }
    return {};
  }

  // The name that a checkpoint gives it; empty: it has no part of a state dict that was named.
  std::string nameOf(const std::string& name) const {
    const std::string optimizer = names_.optimizer + "state.";
    if (beginsWith(name, optimizer)) return "optimizer.state." + name.substr(optimizer.size());
    return beginsWith(name, names_.weights) ? name.substr(names_.weights.size()) : "";
  }

  Status readTensor(Value key, Value told) {
    const std::string name(pickle_.textOf(key).value_or(""));
    if (!isTensorName(name)) return wrong("a tensor's name is no text");
    if (isA(told, "BytesStorageMetadata")) {
      (void)names_.leavesOut(nameOf(name), &states_);
      ++states_.leftOut;
      return {};
    }
    if (!isA(told, "TensorStorageMetadata")) return wrong("what '" + name + "' is is not told");
    const std::string own = nameOf(name);
    if (own.empty()) {
      unknown_.push_back(name);
      return {};
    }
    if (names_.leavesOut(own, &states_)) {
      ++states_.leftOut;
      return {};
    }
    const std::optional<Shape> shape = shapeIn(told, "size");
    const std::optional<DType> dtype = typeIn(told);
    if (!shape) return wrong("the size of '" + name + "' is none");
    if (!dtype)
      return wrong("'" + name + "' is of a type that no state is of; leave it out with --without '" + own + "'");
    ForeignTensor tensor{*dtype, *shape, {}};
    HYCRT_RETURN_IF_ERROR(readChunks(name, told, &tensor));
    if (!states_.tensors.emplace(own, std::move(tensor)).second) return wrong("'" + name + "' is there twice");
    return {};
  }

  // The first of what TensorProperties has for its state.
  std::optional<DType> typeIn(Value told) const {
    const std::optional<Value> properties = pickle_.find(told, "properties");
    const std::optional<Value> state = properties ? pickle_.stateOf(*properties) : std::nullopt;
    if (!state || pickle_.itemsOf(*state).empty()) return std::nullopt;
    const std::string_view type = pickle_.nameOf(pickle_.itemsOf(*state)[0]);
    return beginsWith(type, "torch ") ? typeOfTorch(type.substr(6)) : std::nullopt;
  }

  // They lie in the tensor and have as many elements; that none is there twice is seen when they are read.
  Status readChunks(const std::string& name, Value told, ForeignTensor* tensor) {
    const std::optional<Value> chunks = pickle_.find(told, "chunks");
    if (!chunks) return wrong("the parts of '" + name + "' are not told");
    int64_t all = sizeOf(tensor->dtype), held = 0;
    for (int64_t size : tensor->shape) {
      if (__builtin_mul_overflow(all, size, &all)) return wrong("'" + name + "' has more bytes than a number can say");
    }
    for (Value chunk : pickle_.itemsOf(*chunks)) {
      const std::optional<Shape> offset = shapeIn(chunk, "offsets"), size = shapeIn(chunk, "sizes");
      const int dims = tensor->shape.size;
      if (!offset || !size || offset->size != dims || size->size != dims) {
        return wrong("a part of '" + name + "' has no offset or no size in its dimensions");
      }
      int64_t bytes = sizeOf(tensor->dtype);
      for (int dim = 0; dim < dims; ++dim) {
        if ((*offset)[dim] > tensor->shape[dim] || (*size)[dim] > tensor->shape[dim] - (*offset)[dim]) {
          return wrong("a part of '" + name + "' reaches beyond it in dimension " + std::to_string(dim));
        }
        bytes *= (*size)[dim];
      }
      if (bytes == 0 && all != 0) continue;  // of a rank that has nothing of it
      const auto place = places_.find({name, {offset->begin(), offset->end()}});
      if (place == places_.end()) return wrong("where a part of '" + name + "' is stored is not told");
      if (bytes > place->second.bytes) {
        return wrong("a part of '" + name + "' has " + std::to_string(bytes) + " bytes, but " +
                     std::to_string(place->second.bytes) + " are stored");
      }
      tensor->parts.push_back(place->second);
      tensor->parts.back().box = {*offset, *size};
      if (__builtin_add_overflow(held, bytes, &held)) return wrong("parts of '" + name + "' overlap");
    }
    if (held == all && !tensor->parts.empty()) return {};
    return wrong("parts of '" + name + "' have " + std::to_string(held) + " bytes, expected " + std::to_string(all));
  }

  Status checkNames() const {
    if (unknown_.empty()) return {};
    std::string text;
    for (size_t i = 0; i < std::min(unknown_.size(), kMostTold); ++i) text += (i > 0 ? ", '" : "'") + unknown_[i] + "'";
    if (unknown_.size() > kMostTold) text += " and " + std::to_string(unknown_.size() - kMostTold) + " more";
    return wrong(text + " begin neither with '" + names_.weights + "' (--weights-prefix) nor with '" +
                 names_.optimizer + "state.' (--optimizer-prefix)");
  }

  // Parts lie in their files, apart from each other: no more is made of them than they have bytes.
  Status checkBytes() const {
    std::vector<std::tuple<std::string, int64_t, int64_t>> ranges;
    for (const auto& [name, tensor] : states_.tensors) {
      for (const ForeignPart& part : tensor.parts) ranges.emplace_back(part.file, part.begin, part.bytes);
    }
    std::sort(ranges.begin(), ranges.end());
    std::string file;
    int64_t end = 0, fileBytes = 0;
    for (const auto& [name, begin, bytes] : ranges) {
      if (name != file) {
        Result<FileDescriptor> opened = openCheckpointFile(states_.folder, name);
        if (!opened.ok()) return opened.status();
        Result<int64_t> size = fileSize(*opened, states_.folder + "/" + name);
        if (!size.ok()) return size.status();
        file = name, end = 0, fileBytes = *size;
      }
      if (bytes > fileBytes || begin > fileBytes - bytes) {
        return wrong("bytes [" + std::to_string(begin) + ", + " + std::to_string(bytes) + ") of '" + name +
                     "' are told of, which has " + std::to_string(fileBytes));
      }
      if (begin < end) return wrong("two parts share byte " + std::to_string(begin) + " of '" + name + "'");
      end = begin + bytes;
    }
    return {};
  }

  const ForeignNames& names_;
  const Pickle& pickle_;
  std::string path_;
  ForeignStates states_;
  std::map<Place, ForeignPart> places_;
  std::vector<std::string> unknown_;
};

}  // namespace

Result<ForeignStates> openDistributedCheckpoint(const std::string& folder, const ForeignNames& names) {
  const std::string path = folder + "/" + kMetadata;
  Result<FileDescriptor> file = openCheckpointFile(folder, kMetadata);
  if (!file.ok()) return file.status();
  Result<std::string> text = readWholeFile(*file, path, kMaxPickleBytes);
  if (!text.ok()) return text.status();
  Result<Pickle> pickle = Pickle::parse(std::move(*text), "'" + path + "'");
  if (!pickle.ok()) return pickle.status();
  return MetadataReader(folder, names, *pickle).read();
}

}  // namespace hycrt
