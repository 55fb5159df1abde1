// Names of adapters' parameters, and products of A and B element by element.
#include "run/saved_adapter.h"

#include <algorithm>

namespace hycrt {
namespace {

constexpr const char* kPrefix = "base_model.model.";
constexpr const char* kInner = ".lora_A.weight";
constexpr const char* kOuter = ".lora_B.weight";
constexpr const char* kWeight = ".weight";

// "q_proj" of "q_proj.lora_A.weight"; empty for other names.
std::string layerOf(const std::string& parameter) {
  for (const std::string ending : {kInner, kOuter}) {
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
    merge.layers_[layer.path + kWeight] = {layer.inputsFirst, &inner->second, &outer->second};
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

}  // namespace hycrt
