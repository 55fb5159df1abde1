// The adapter of a manifest (hycrt/manifest.h shows its form), which a checkpoint has, too.
#ifndef HYCRT_SRC_IO_ADAPTER_JSON_H_
#define HYCRT_SRC_IO_ADAPTER_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "hycrt/manifest.h"
#include "hycrt/status.h"

namespace hycrt {

// `file` labels errors, `path` is what they call the object.
Result<Adapter> readAdapter(const nlohmann::json& value, const std::string& file, const std::string& path);
nlohmann::ordered_json encodeAdapter(const Adapter& adapter);

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_ADAPTER_JSON_H_
