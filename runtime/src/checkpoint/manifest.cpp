// checkpoint.json: writing it, and reading it with every number checked.
#include "checkpoint/manifest.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>

#include "base/crc32c.h"
#include "base/json_text.h"
#include "hycrt/safetensors.h"
#include "io/adapter_json.h"

namespace hycrt {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kSumKey = ",\n\"manifest_crc32c\": \"";
constexpr const char* kSumEnd = "\"\n}\n";
constexpr size_t kSumDigits = 8;
constexpr int64_t kMost = INT64_MAX;
constexpr int64_t kMostExact = int64_t{1} << 53;  // of a counter, which is kept as a double
constexpr double kMostF32 = std::numeric_limits<float>::max();

std::string hex(uint64_t value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*" PRIx64, digits, value);
  return text;
}

std::vector<int64_t> listOf(const Shape& shape) { return {shape.begin(), shape.end()}; }

ordered_json encode(const CheckpointParts& parts) {
  ordered_json tensors = ordered_json::object(), files = ordered_json::object();
  for (const auto& [name, tensor] : parts.tensors) {
    ordered_json slices = ordered_json::array();
    for (const CheckpointSlice& slice : tensor.slices) {
      slices.push_back({{"file", slice.file},
                        {"byte", slice.byte},
                        {"offset", listOf(slice.box.offset)},
                        {"shape", listOf(slice.box.size)}});
    }
    tensors[name] = {
        {"dtype", safetensorsType(tensor.dtype)}, {"shape", listOf(tensor.shape)}, {"slices", std::move(slices)}};
  }
  for (const auto& [name, file] : parts.files) {
    files[name] = {{"bytes", file.sums.bytes},
                   {"header_bytes", file.sums.headerBytes},
                   {"header_crc32c", hex(file.sums.header, kSumDigits)},
                   {"crc32c", digitsOf(file.sums.chunks)},
                   {"sha256", file.sha256}};
  }
  return {{"tensors", std::move(tensors)}, {"files", std::move(files)}};
}

class PartsReader {
 public:
  explicit PartsReader(std::string label) : label_(std::move(label)) {}

  Result<CheckpointParts> read(const json& tensors, const json& files) {
    for (const auto& [name, value] : files.items()) HYCRT_RETURN_IF_ERROR(readFile(name, value));
    for (const auto& [name, value] : tensors.items()) HYCRT_RETURN_IF_ERROR(readTensor(name, value));
    return std::move(parts_);
  }

 private:
  Status wrong(const std::string& path, const std::string& what) const {
    return dataError(label_ + ": " + path + ": " + what);
  }

  Status readFile(const std::string& name, const json& value) {
    const std::string path = "/files/" + name;
    if (!isCheckpointFileName(name)) return wrong(path, "no name of a checkpoint's file");
    ObjectReader object(value, label_, path, {"bytes", "header_bytes", "header_crc32c", "crc32c", "sha256"});
    CheckpointFile file;
    file.sums.bytes = object.integer("bytes", 8, kMost);
    file.sums.headerBytes = object.integer("header_bytes", 8, kMost);
    const auto header = sumsFromDigits(object.text("header_crc32c")), chunks = sumsFromDigits(object.text("crc32c"));
    file.sha256 = object.text("sha256");
    HYCRT_RETURN_IF_ERROR(object.status());
    if (!header || header->size() != 1) return wrong(path + "/header_crc32c", "expected eight hexadecimal digits");
    if (!chunks || static_cast<int64_t>(chunks->size()) != chunkCount(file.sums.bytes)) {
      return wrong(path + "/crc32c",
                   "expected eight hexadecimal digits a MiB of " + std::to_string(file.sums.bytes) + " bytes");
    }
    if (file.sums.headerBytes > file.sums.bytes) return wrong(path + "/header_bytes", "more than the file has");
    file.sums.header = header->front();
    file.sums.chunks = *chunks;
    parts_.files[name] = std::move(file);
    return {};
  }

  Status readShape(const json& value, const std::string& path, Shape* shape) const {
    if (value.size() > static_cast<size_t>(kMaxRank)) {
      return wrong(path, std::to_string(value.size()) + " dimensions, expected at most " + std::to_string(kMaxRank));
    }
    for (const json& size : value) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(kMost)) {
        return wrong(path, "found " + size.dump() + ", expected a whole number");
      }
      shape->items[shape->size++] = size.get<int64_t>();
    }
    return {};
  }

  // -1: no number has room for it.
  static int64_t bytesOf(const Shape& shape, DType dtype) {
    int64_t bytes = sizeOf(dtype);
    for (int64_t size : shape) {
      if (__builtin_mul_overflow(bytes, size, &bytes)) return -1;
    }
    return bytes;
  }

  Status readTensor(const std::string& name, const json& value) {
    const std::string path = "/tensors/" + name;
    ObjectReader object(value, label_, path, {"dtype", "shape", "slices"});
    const std::string type = object.text("dtype");
    const json *shape = object.array("shape"), *slices = object.array("slices");
    HYCRT_RETURN_IF_ERROR(object.status());
    const std::optional<DType> dtype = typeOfSafetensors(type);
    if (!dtype) return wrong(path + "/dtype", "unknown type '" + type + "'");
    CheckpointTensor tensor;
    tensor.dtype = *dtype;
    HYCRT_RETURN_IF_ERROR(readShape(*shape, path + "/shape", &tensor.shape));
    if (bytesOf(tensor.shape, tensor.dtype) < 0) return wrong(path + "/shape", "more bytes than a number can say");
    for (size_t i = 0; i < slices->size(); ++i) {
      HYCRT_RETURN_IF_ERROR(readSlice((*slices)[i], path + "/slices/" + std::to_string(i), &tensor));
    }
    parts_.tensors[name] = std::move(tensor);
    return {};
  }

  Status readSlice(const json& value, const std::string& path, CheckpointTensor* tensor) const {
    ObjectReader object(value, label_, path, {"file", "byte", "offset", "shape"});
    CheckpointSlice slice;
    slice.file = object.text("file");
    slice.byte = object.integer("byte", 8, kMost);
    const json *offset = object.array("offset"), *size = object.array("shape");
    HYCRT_RETURN_IF_ERROR(object.status());
    HYCRT_RETURN_IF_ERROR(readShape(*offset, path + "/offset", &slice.box.offset));
    HYCRT_RETURN_IF_ERROR(readShape(*size, path + "/shape", &slice.box.size));
    if (slice.box.offset.size != tensor->shape.size || slice.box.size.size != tensor->shape.size) {
      return wrong(path, "expected " + std::to_string(tensor->shape.size) + " dimensions, as its tensor has");
    }
    for (int dim = 0; dim < tensor->shape.size; ++dim) {
      const int64_t begin = slice.box.offset[dim], count = slice.box.size[dim], all = tensor->shape[dim];
      if (count == 0 || begin > all || count > all - begin) {
        return wrong(path, "dimension " + std::to_string(dim) + " is [" + std::to_string(begin) + ", " +
                               std::to_string(begin) + " + " + std::to_string(count) + ") of " + std::to_string(all));
      }
    }
    const auto file = parts_.files.find(slice.file);
    if (file == parts_.files.end()) return wrong(path + "/file", "'" + slice.file + "' is not in /files");
    const int64_t bytes = bytesOf(slice.box.size, tensor->dtype), held = file->second.sums.bytes;
    if (slice.byte < file->second.sums.headerBytes || bytes > held || slice.byte > held - bytes ||
        slice.byte % sizeOf(tensor->dtype) != 0) {
      return wrong(path, "bytes [" + std::to_string(slice.byte) + ", + " + std::to_string(bytes) +
                             ") are no tensor's of a file of " + std::to_string(held) + " bytes");
    }
    tensor->slices.push_back(std::move(slice));
    return {};
  }

  std::string label_;
  CheckpointParts parts_;
};

// As many elements as the tensor has; that none is there twice is seen when they are read.
Status checkFilled(const CheckpointParts& parts, const std::string& label) {
  for (const auto& [name, tensor] : parts.tensors) {
    int64_t elements = 0;
    for (const CheckpointSlice& slice : tensor.slices) {
      if (__builtin_add_overflow(elements, elementCount(slice.box.size), &elements)) elements = -1;
      if (elements < 0) break;
    }
    if (elements == elementCount(tensor.shape)) continue;
    return dataError(label + ": /tensors/" + name + ": slices have " + std::to_string(elements) +
                     " elements, expected " + std::to_string(elementCount(tensor.shape)));
  }
  return {};
}

Status checkSum(const std::string& text, const std::string& file) {
  const size_t at = text.rfind(kSumKey);
  const size_t digits = at == std::string::npos ? at : at + std::string(kSumKey).size();
  if (at == std::string::npos || text.size() != digits + kSumDigits + std::string(kSumEnd).size() ||
      text.compare(digits + kSumDigits, std::string::npos, kSumEnd) != 0) {
    return dataError(file + ": does not end in its own sum (manifest_crc32c): it is cut off or was edited");
  }
  const std::string expected = hex(crc32c(0, text.data(), at), kSumDigits);
  if (text.compare(digits, kSumDigits, expected) == 0) return {};
  return dataError(file + ": its text has the CRC32C " + expected + ", expected " + text.substr(digits, kSumDigits) +
                   ": it is damaged or was edited");
}

// First of all: of what another version has written nothing else can be said.
Status checkVersion(const json& root, const std::string& file) {
  const auto version = root.find("format_version");
  if (version == root.end()) return dataError(file + ": has no format_version; it is no checkpoint of hyc's");
  if (*version == kCheckpointVersion) return {};
  return dataError(file + ": format_version is " + version->dump() + ", expected " +
                   std::to_string(kCheckpointVersion) + "; read it with the version of hyc that wrote it");
}

Status readCounters(const json& counters, const std::string& file, CheckpointManifest* manifest) {
  for (const auto& [name, value] : counters.items()) {
    // The one that is no count is a scale, which may be anything that f32 holds.
    const bool isScale = name == "loss_scale";
    if (!value.is_number() || !(value.get<double>() >= 0) ||
        value.get<double>() > (isScale ? kMostF32 : static_cast<double>(kMostExact))) {
      return dataError(file + ": /counters/" + name + ": found " + value.dump() + ", expected a number from 0 to " +
                       (isScale ? "f32's largest" : "2^53"));
    }
    manifest->counters[name] = value.get<double>();
  }
  return {};
}

Status readTraining(const json& value, const std::string& file, CheckpointManifest* manifest) {
  ObjectReader object(value, file, "/training", {"optimizer", "adapter", "adapter_config"});
  CheckpointTraining training;
  training.optimizer = object.text("optimizer");
  if (value.contains("adapter_config")) training.adapterConfig = object.text("adapter_config");
  HYCRT_RETURN_IF_ERROR(object.status());
  if (value.contains("adapter")) {
    Result<Adapter> adapter = readAdapter(value["adapter"], file, "/training/adapter");
    if (!adapter.ok()) return adapter.status();
    training.adapter = std::move(*adapter);
  }
  manifest->training = std::move(training);
  return {};
}

ordered_json encode(const CheckpointTraining& training) {
  ordered_json told = {{"optimizer", training.optimizer}};
  if (training.adapter) told["adapter"] = encodeAdapter(*training.adapter);
  if (!training.adapterConfig.empty()) told["adapter_config"] = training.adapterConfig;
  return told;
}

Status readFields(const json& root, const std::string& file, CheckpointManifest* manifest) {
  ObjectReader object(
      root, file, "",
      {"format_version", "name", "plan_hash", "mesh", "ranks", "step", "samples", "global_batch", "sequence", "data",
       "seed", "steps", "learning_rate", "counters", "training", "tensors", "files", "manifest_crc32c"});
  manifest->name = object.text("name");
  const std::string hash = object.text("plan_hash"), seed = object.text("seed");
  manifest->mesh = object.text("mesh");
  manifest->ranks = object.integer("ranks", 1, kMost);
  manifest->step = object.integer("step", 1, kMostExact);
  manifest->samples = object.integer("samples", 0, kMost);
  manifest->globalBatch = object.integer("global_batch", 0, kMost);
  manifest->sequence = object.integer("sequence", 0, kMost);
  manifest->steps = object.integer("steps", 0, kMost);
  const json *data = object.object("data"), *rate = object.object("learning_rate");
  const json* counters = object.object("counters");
  (void)object.object("tensors");
  (void)object.object("files");
  HYCRT_RETURN_IF_ERROR(object.status());
  char* end = nullptr;
  manifest->planHash = std::strtoull(hash.c_str(), &end, 16);
  if (hash.size() != 16 || *end != 0) return dataError(file + ": /plan_hash: expected 16 hexadecimal digits");
  manifest->seed = std::strtoull(seed.c_str(), &end, 10);
  if (seed.empty() || *end != 0) return dataError(file + ": /seed: expected a whole number as text");
  manifest->learningRate = *rate;
  ObjectReader cursor(*data, file, "/data", {"samples", "shuffled", "epoch", "place", "arrangement"});
  manifest->dataSamples = cursor.integer("samples", 0, kMost);
  manifest->shuffled = cursor.boolean("shuffled");
  (void)cursor.integer("epoch", 0, kMost);
  (void)cursor.integer("place", 0, kMost);
  if (data->contains("arrangement")) manifest->arrangement = cursor.text("arrangement");
  HYCRT_RETURN_IF_ERROR(cursor.status());
  if (root.contains("training")) HYCRT_RETURN_IF_ERROR(readTraining(root["training"], file, manifest));
  return readCounters(*counters, file, manifest);
}

}  // namespace

bool isCheckpointFileName(const std::string& name) {
  if (name == kCheckpointManifest) return true;
  return name.rfind("part-", 0) == 0 && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == name.npos;
}

// Both would have to be damaged: one stands in its first lines, one in its last.
bool isManifestOfSomeKind(const std::string& text) {
  return text.find("\"plan_hash\"") != std::string::npos || text.find("\"manifest_crc32c\"") != std::string::npos;
}

std::string encodeCheckpointManifest(const CheckpointManifest& manifest) {
  const int64_t all = manifest.dataSamples;
  ordered_json root = {{"format_version", kCheckpointVersion},
                       {"name", manifest.name},
                       {"plan_hash", hex(manifest.planHash, 16)},
                       {"mesh", manifest.mesh},
                       {"ranks", manifest.ranks},
                       {"step", manifest.step},
                       {"samples", manifest.samples},
                       {"global_batch", manifest.globalBatch},
                       {"sequence", manifest.sequence},
                       {"data",
                        {{"samples", all},
                         {"shuffled", manifest.shuffled},
                         {"epoch", all > 0 ? manifest.samples / all : 0},
                         {"place", all > 0 ? manifest.samples % all : 0}}},
                       {"seed", std::to_string(manifest.seed)},
                       {"steps", manifest.steps},
                       {"learning_rate", manifest.learningRate},
                       {"counters", manifest.counters}};
  if (!manifest.arrangement.empty()) root["data"]["arrangement"] = manifest.arrangement;
  if (manifest.training) root["training"] = encode(*manifest.training);
  ordered_json parts = encode(manifest.parts);
  root["tensors"] = std::move(parts["tensors"]);
  root["files"] = std::move(parts["files"]);
  std::string text = root.dump(1, ' ', false, json::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}"
  return text + kSumKey + hex(crc32c(0, text.data(), text.size()), kSumDigits) + kSumEnd;
}

Result<CheckpointManifest> parseCheckpointManifest(const std::string& text, const std::string& file) {
  Result<json> root = parseJson(text, file);
  if (!root.ok()) return root.status();
  if (!root->is_object()) return dataError(file + ": expected an object");
  HYCRT_RETURN_IF_ERROR(checkVersion(*root, file));
  HYCRT_RETURN_IF_ERROR(checkSum(text, file));
  CheckpointManifest manifest;
  HYCRT_RETURN_IF_ERROR(readFields(*root, file, &manifest));
  Result<CheckpointParts> parts = PartsReader(file).read(root->at("tensors"), root->at("files"));
  if (!parts.ok()) return parts.status();
  manifest.parts = std::move(*parts);
  HYCRT_RETURN_IF_ERROR(checkFilled(manifest.parts, file));
  return manifest;
}

std::string encodeCheckpointParts(const CheckpointParts& parts) {
  return encode(parts).dump(-1, ' ', false, json::error_handler_t::replace);
}

void addParts(CheckpointParts parts, CheckpointParts* all) {
  all->files.merge(parts.files);
  for (auto& [name, tensor] : parts.tensors) {
    CheckpointTensor& whole = all->tensors[name];
    whole.dtype = tensor.dtype;
    whole.shape = tensor.shape;
    std::move(tensor.slices.begin(), tensor.slices.end(), std::back_inserter(whole.slices));
  }
}

Result<CheckpointParts> parseCheckpointParts(const std::string& text, const std::string& file) {
  Result<json> root = parseJson(text, file);
  if (!root.ok()) return root.status();
  ObjectReader object(*root, file, "", {"tensors", "files"});
  const json *tensors = object.object("tensors"), *files = object.object("files");
  HYCRT_RETURN_IF_ERROR(object.status());
  return PartsReader(file).read(*tensors, *files);
}

}  // namespace hycrt
