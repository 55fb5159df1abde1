// Names of adapters' parameters, and products of A and B element by element.
#include "io/saved_adapter.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "io/float_convert.h"

namespace hycrt {
namespace {

constexpr const char* kPrefix = "base_model.model.";
constexpr const char* kInner = ".lora_A.weight";
constexpr const char* kOuter = ".lora_B.weight";
constexpr const char* kMagnitudes = ".lora_magnitude_vector";
constexpr const char* kWeight = ".weight";

// "q_proj" of "q_proj.lora_A.weight"; empty for other names.
std::string layerOf(const std::string& parameter) {
  for (const std::string ending : {kInner, kOuter, kMagnitudes}) {
    if (parameter.size() > ending.size() &&
        parameter.compare(parameter.size() - ending.size(), ending.size(), ending) == 0) {
      return parameter.substr(0, parameter.size() - ending.size());
    }
  }
  return {};
}

// The manifest has the layers in the order of their paths.
bool hasLayer(const Adapter& adapter, const std::string& path) {
  return !path.empty() &&
         std::binary_search(adapter.layers.begin(), adapter.layers.end(), AdapterLayer{path, false},
                            [](const AdapterLayer& a, const AdapterLayer& b) { return a.path < b.path; });
}

}  // namespace

std::string nameInAdapter(const Adapter& adapter, const std::string& parameter) {
  const bool isPart = hasLayer(adapter, layerOf(parameter)) ||
                      std::find(adapter.whole.begin(), adapter.whole.end(), parameter) != adapter.whole.end();
  return isPart ? kPrefix + parameter : "";
}

bool isNameOfAdapter(const std::string& parameter) { return !layerOf(parameter).empty(); }

std::string nameInModel(const Adapter& adapter, const std::string& parameter) {
  return hasLayer(adapter, layerOf(parameter)) ? "" : parameter;
}

Result<AdapterMerge> AdapterMerge::open(const Adapter& adapter, const std::string& path) {
  Result<TensorDirectory> directory = readSafetensorsDirectory(path);
  if (!directory.ok()) return directory.status();
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  AdapterMerge merge(path, std::move(*file), std::move(*directory));
  merge.scale_ = adapter.scale;
  for (const AdapterLayer& layer : adapter.layers) {
    const auto inner = merge.directory_.find(kPrefix + layer.path + kInner);
    const auto outer = merge.directory_.find(kPrefix + layer.path + kOuter);
    if (inner == merge.directory_.end() || outer == merge.directory_.end()) {
      return internalError("no program has both parameters of the adapter of " + layer.path);
    }
    const auto lengths = merge.directory_.find(kPrefix + layer.path + kMagnitudes);
    if (adapter.hasMagnitudes && lengths == merge.directory_.end()) {
      return internalError("no program has the magnitudes of the adapter of " + layer.path);
    }
    merge.layers_[layer.path + kWeight] = {layer.inputsFirst, &inner->second, &outer->second,
                                           adapter.hasMagnitudes ? &lengths->second : nullptr};
  }
  return merge;
}

Status AdapterMerge::load(const std::string& parameter, const Layer& layer) {
  if (loaded_ == parameter) return {};
  const auto read = [&](const TensorEntry& entry, std::vector<float>* values) -> Status {
    values->resize(static_cast<size_t>(entry.bytes) / sizeof(float));
    return readAt(file_, path_, values->data(), entry.bytes, entry.begin);
  };
  HYCRT_RETURN_IF_ERROR(read(*layer.inner, &inner_));
  HYCRT_RETURN_IF_ERROR(read(*layer.outer, &outer_));
  loaded_ = parameter;
  return {};
}

Status AdapterMerge::add(const std::string& parameter, int64_t global, int64_t count, float* values) {
  const auto found = layers_.find(parameter);
  if (found == layers_.end()) return {};
  const Layer& layer = found->second;
  HYCRT_RETURN_IF_ERROR(load(parameter, layer));
  const int64_t rank = layer.inner->shape[0], inputs = layer.inner->shape[1], outputs = layer.outer->shape[0];
#pragma omp parallel for schedule(static) if (count * rank > 65536)
  for (int64_t i = 0; i < count; ++i) {
    const int64_t major = (global + i) / (layer.inputsFirst ? outputs : inputs);
    const int64_t minor = (global + i) % (layer.inputsFirst ? outputs : inputs);
    const int64_t input = layer.inputsFirst ? major : minor, output = layer.inputsFirst ? minor : major;
    double change = 0;
    for (int64_t k = 0; k < rank; ++k) {
      change += static_cast<double>(outer_[static_cast<size_t>(output * rank + k)]) *
                static_cast<double>(inner_[static_cast<size_t>(k * inputs + input)]);
    }
    values[i] = static_cast<float>(static_cast<double>(values[i]) + scale_ * change);
  }
  return {};
}

// Twice over the weight, a piece at a time: lengths first, then what they are to be.
Status AdapterMerge::toLength(const Layer& layer, const Written& file, const TensorEntry& weight) const {
  constexpr int64_t kPiece = 1 << 20;
  const int64_t outputs = layer.lengths->shape[0], inputs = layer.inner->shape[1], size = sizeOf(weight.dtype);
  std::vector<float> factors(static_cast<size_t>(outputs)), values(static_cast<size_t>(kPiece));
  std::vector<double> squares(static_cast<size_t>(outputs));
  std::vector<std::byte> bytes(static_cast<size_t>(kPiece * size));
  const auto forEachPiece = [&](const auto& visit) -> Status {
    for (int64_t begin = 0; begin < outputs * inputs; begin += kPiece) {
      const int64_t count = std::min(kPiece, outputs * inputs - begin), offset = weight.begin + begin * size;
      HYCRT_RETURN_IF_ERROR(readAt(file.reading, file.path, bytes.data(), count * size, offset));
      convertFloats(bytes.data(), weight.dtype, reinterpret_cast<std::byte*>(values.data()), DType::kF32, count);
      HYCRT_RETURN_IF_ERROR(visit(begin, count, offset));
    }
    return {};
  };
  const auto outputOf = [&](int64_t element) {
    return static_cast<size_t>(layer.inputsFirst ? element % outputs : element / inputs);
  };
  HYCRT_RETURN_IF_ERROR(forEachPiece([&](int64_t begin, int64_t count, int64_t) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      const double value = double{values[static_cast<size_t>(i)]};
      squares[outputOf(begin + i)] += value * value;
    }
    return {};
  }));
  HYCRT_RETURN_IF_ERROR(readAt(file_, path_, factors.data(), layer.lengths->bytes, layer.lengths->begin));
  return forEachPiece([&](int64_t begin, int64_t count, int64_t offset) -> Status {
    for (int64_t i = 0; i < count; ++i) {
      const size_t output = outputOf(begin + i);
      float& value = values[static_cast<size_t>(i)];
      value = static_cast<float>(double{value} * (double{factors[output]} / std::sqrt(squares[output])));
    }
    convertFloats(reinterpret_cast<const std::byte*>(values.data()), DType::kF32, bytes.data(), weight.dtype, count);
    return writeAt(file.writing, file.path, bytes.data(), count * size, offset);
  });
}

Status AdapterMerge::toLengths(const std::string& path, FolderLink link, int64_t first, int64_t step) const {
  Result<TensorDirectory> directory = readSafetensorsDirectory(path);
  if (!directory.ok()) return directory.status();
  Result<FileDescriptor> writing = openMade(path, link), reading = openForReading(path);
  if (!writing.ok()) return writing.status();
  if (!reading.ok()) return reading.status();
  const Written file{path, std::move(*reading), std::move(*writing)};
  int64_t number = 0;
  for (const auto& [name, layer] : layers_) {
    if (!layer.lengths || number++ % step != first) continue;
    const auto weight = directory->find(name);
    if (weight == directory->end()) return internalError("'" + path + "' lacks " + name);
    HYCRT_RETURN_IF_ERROR(toLength(layer, file, weight->second));
  }
  if (fsync(file.writing.get()) != 0) return errnoError("cannot sync '" + path + "'", errno);
  return {};
}

}  // namespace hycrt
