// Reading and writing headers of safetensors files, with every number checked against the file.
#include "hycrt/safetensors.h"

#include <algorithm>

#include "base/file.h"
#include "base/json_text.h"

namespace hycrt {
namespace {

using nlohmann::json;

constexpr int64_t kMaxHeaderBytes = 100 << 20;
constexpr int64_t kAlignment = 64;

struct TypeName {
  DType dtype;
  const char* name;
};
constexpr TypeName kTypeNames[] = {{DType::kF32, "F32"}, {DType::kF64, "F64"}, {DType::kI32, "I32"},
                                   {DType::kI64, "I64"}, {DType::kF16, "F16"}, {DType::kBF16, "BF16"},
                                   {DType::kU8, "U8"},   {DType::kU8, "BOOL"}};

std::string knownTypes() {
  std::string names;
  for (const TypeName& row : kTypeNames) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

// -1 where a size is negative or the product too large.
int64_t byteCount(const std::vector<int64_t>& shape, DType dtype) {
  int64_t bytes = sizeOf(dtype);
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

class DirectoryReader {
 public:
  DirectoryReader(std::string path, int64_t fileBytes) : path_(std::move(path)), fileBytes_(fileBytes) {}

  Result<TensorDirectory> read(const json& header, int64_t dataBegin) {
    if (!header.is_object()) return wrong("header", "expected an object");
    TensorDirectory directory;
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") continue;
      TensorEntry entry;
      HYCRT_RETURN_IF_ERROR(readEntry(name, value, dataBegin, &entry));
      directory[name] = entry;
    }
    HYCRT_RETURN_IF_ERROR(checkCoverage(directory, dataBegin));
    return directory;
  }

 private:
  Status wrong(const std::string& tensor, const std::string& what) const {
    return dataError("'" + path_ + "', " + tensor + ": " + what);
  }

  Status readEntry(const std::string& name, const json& value, int64_t dataBegin, TensorEntry* entry) const {
    ObjectReader object(value, "'" + path_ + "'", "/" + name, {"dtype", "shape", "data_offsets"});
    const std::string dtype = object.text("dtype");
    const json* shape = object.array("shape");
    const json* offsets = object.array("data_offsets");
    HYCRT_RETURN_IF_ERROR(object.status());
    const std::optional<DType> known = typeOfSafetensors(dtype);
    if (!known) {
      return wrong(name, "unknown type '" + dtype + "', expected one of " + knownTypes() +
                             "; write the file with one of them, integers of 16 bits as I32");
    }
    entry->dtype = *known;
    for (const json& size : *shape) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX)
        return wrong(name, "a size is no valid number");
      entry->shape.push_back(size.get<int64_t>());
    }
    if (offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
      return wrong(name, "data_offsets should be two numbers");
    }
    const uint64_t begin = (*offsets)[0].get<uint64_t>(), end = (*offsets)[1].get<uint64_t>();
    const uint64_t dataBytes = static_cast<uint64_t>(fileBytes_ - dataBegin);
    if (begin > end || end > dataBytes) {
      return wrong(name, "lies from byte " + std::to_string(begin) + " to " + std::to_string(end) +
                             " of the data, which has " + std::to_string(dataBytes) + " bytes");
    }
    entry->begin = dataBegin + static_cast<int64_t>(begin);
    entry->bytes = static_cast<int64_t>(end - begin);
    const int64_t expected = byteCount(entry->shape, entry->dtype);
    if (entry->bytes != expected) {
      return wrong(name, "has " + std::to_string(entry->bytes) + " bytes, expected " + std::to_string(expected) +
                             " by its shape");
    }
    return {};
  }

  Status checkCoverage(const TensorDirectory& directory, int64_t dataBegin) const {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (const auto& [name, entry] : directory) ranges.push_back({entry.begin, entry.begin + entry.bytes});
    std::sort(ranges.begin(), ranges.end());
    int64_t next = dataBegin;
    for (const auto& [begin, end] : ranges) {
      if (begin != next)
        return wrong("byte " + std::to_string(std::min(begin, next)), "tensors overlap or leave a hole");
      next = end;
    }
    if (next != fileBytes_) return wrong("byte " + std::to_string(next), "bytes that belong to no tensor follow");
    return {};
  }

  std::string path_;
  int64_t fileBytes_;
};

}  // namespace

const char* safetensorsType(DType dtype) {
  for (const TypeName& row : kTypeNames) {
    if (row.dtype == dtype) return row.name;
  }
  return "";
}

std::optional<DType> typeOfSafetensors(std::string_view name) {
  for (const TypeName& row : kTypeNames) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

std::string encodeSafetensorsHeader(TensorDirectory* directory, const SafetensorsMetadata& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  // Without it transformers does not believe that the tensors are PyTorch's.
  header["__metadata__"] = {{"format", "pt"}};
  for (const auto& [key, text] : metadata) header["__metadata__"][key] = text;
  int64_t next = 0;
  for (auto& [name, entry] : *directory) {
    entry.bytes = byteCount(entry.shape, entry.dtype);
    header[name] = {
        {"dtype", safetensorsType(entry.dtype)}, {"shape", entry.shape}, {"data_offsets", {next, next + entry.bytes}}};
    entry.begin = next;
    next += entry.bytes;
  }
  std::string text = header.dump();
  while ((text.size() + 8) % kAlignment != 0) text.push_back(' ');
  std::string encoded;
  for (int shift = 0; shift < 64; shift += 8) encoded.push_back(static_cast<char>(text.size() >> shift & 0xFF));
  encoded += text;
  for (auto& [name, entry] : *directory) entry.begin += static_cast<int64_t>(encoded.size());
  return encoded;
}

Result<TensorDirectory> readSafetensorsDirectory(const std::string& path, SafetensorsMetadata* metadata) {
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  Result<int64_t> fileBytes = fileSize(*file, path);
  if (!fileBytes.ok()) return fileBytes.status();
  unsigned char lengthBytes[8];
  HYCRT_RETURN_IF_ERROR(readAt(*file, path, lengthBytes, 8, 0));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | lengthBytes[i];
  if (length > static_cast<uint64_t>(kMaxHeaderBytes) || static_cast<int64_t>(length) > *fileBytes - 8) {
    return dataError("'" + path + "': the header claims " + std::to_string(length) + " bytes, the file has " +
                     std::to_string(*fileBytes));
  }
  std::string text(length, '\0');
  HYCRT_RETURN_IF_ERROR(readAt(*file, path, text.data(), static_cast<int64_t>(length), 8));
  Result<json> header = parseJson(text, "'" + path + "'");
  if (!header.ok()) return header.status();
  if (metadata && header->is_object() && header->contains("__metadata__") && (*header)["__metadata__"].is_object()) {
    for (const auto& [key, value] : (*header)["__metadata__"].items()) {
      if (value.is_string()) (*metadata)[key] = value.get<std::string>();
    }
  }
  return DirectoryReader(path, *fileBytes).read(*header, static_cast<int64_t>(length) + 8);
}

}  // namespace hycrt
