// safetensors files: u64 little-endian header length, a JSON header, then the tensors' bytes without holes.
#ifndef HYCRT_SAFETENSORS_H_
#define HYCRT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hycrt/status.h"
#include "hycrt/types.h"

namespace hycrt {

struct TensorEntry {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // byte offset in the file, not in the data section
  int64_t bytes = 0;
};

// By name, so that the order of the bytes is the order of the names.
using TensorDirectory = std::map<std::string, TensorEntry>;

// "F32", as headers spell it, and back.
const char* safetensorsType(DType dtype);
std::optional<DType> typeOfSafetensors(std::string_view name);

// What a header says beside its tensors.
using SafetensorsMetadata = std::map<std::string, std::string>;

// Header length and header, padded so that the data begins at a multiple of 64; sets begin and bytes of every entry.
std::string encodeSafetensorsHeader(TensorDirectory* directory, const SafetensorsMetadata& metadata = {});

// Checks what encode promises: types that are known, sizes that match the shapes, no hole, no overlap. `metadata`,
// where it is wanted, gets what the header says beside.
Result<TensorDirectory> readSafetensorsDirectory(const std::string& path, SafetensorsMetadata* metadata = nullptr);

}  // namespace hycrt

#endif  // HYCRT_SAFETENSORS_H_
