// Layers in the order of their paths, as those who look for one rely on.
#include "io/adapter_json.h"

#include <tuple>

#include "base/json_text.h"

namespace hycrt {

using nlohmann::json;
using nlohmann::ordered_json;

Result<Adapter> readAdapter(const json& value, const std::string& file, const std::string& path) {
  const auto error = [&](const std::string& at, const std::string& what) {
    return dataError(file + ": " + path + at + ": " + what);
  };
  ObjectReader object(value, file, path, {"scale", "magnitudes", "layers", "whole", "tied"});
  Adapter adapter;
  adapter.scale = object.number("scale");
  adapter.hasMagnitudes = object.boolean("magnitudes");
  const json* layers = object.array("layers");
  const json* whole = object.array("whole");
  const json* tied = object.array("tied");
  HYCRT_RETURN_IF_ERROR(object.status());
  for (const json& each : *layers) {
    const std::string at = "/layers/" + std::to_string(adapter.layers.size());
    ObjectReader layer(each, file, path + at, {"path", "inputs_first"});
    adapter.layers.push_back({layer.text("path"), layer.boolean("inputs_first")});
    HYCRT_RETURN_IF_ERROR(layer.status());
    const size_t count = adapter.layers.size();
    if (count > 1 && adapter.layers[count - 2].path >= adapter.layers[count - 1].path) {
      return error(at, "expected layers in the order of their paths");
    }
  }
  for (const auto& [names, list, at] :
       {std::tuple(whole, &adapter.whole, "/whole"), std::tuple(tied, &adapter.tied, "/tied")}) {
    for (const json& name : *names) {
      if (!name.is_string()) return error(at, "expected names of parameters");
      list->push_back(name);
    }
  }
  return adapter;
}

ordered_json encodeAdapter(const Adapter& adapter) {
  ordered_json layers = ordered_json::array();
  for (const AdapterLayer& layer : adapter.layers) {
    layers.push_back({{"path", layer.path}, {"inputs_first", layer.inputsFirst}});
  }
  return {{"scale", adapter.scale},
          {"magnitudes", adapter.hasMagnitudes},
          {"layers", std::move(layers)},
          {"whole", adapter.whole},
          {"tied", adapter.tied}};
}

}  // namespace hycrt
