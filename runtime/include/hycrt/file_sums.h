// FileSums: what was in a file when a model was compiled against it. hyc-compile measures, manifest.json carries, and
// each rank compares what it reads: weights that were exchanged, cut off or damaged since are refused, not trained.
//
// Sums guard against accidents, not against somebody who writes the manifest too.
#ifndef HYCRT_FILE_SUMS_H_
#define HYCRT_FILE_SUMS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

inline constexpr int64_t kChunkBytes = int64_t{1} << 20;

struct FileSums {
  int64_t bytes = 0;
  int64_t headerBytes = 0;       // of safetensors, what says where each tensor lies; 0: there is none
  uint32_t header = 0;           // its CRC32C
  std::vector<uint32_t> chunks;  // CRC32C of each kChunkBytes, the last shorter

  bool operator==(const FileSums& other) const {
    return bytes == other.bytes && headerBytes == other.headerBytes && header == other.header && chunks == other.chunks;
  }
};

constexpr int64_t chunkCount(int64_t fileBytes) { return (fileBytes + kChunkBytes - 1) / kChunkBytes; }

// Reads all of the file, by several threads. One that changes meanwhile is a data error.
Result<FileSums> measureFile(const std::string& path);

// Which file, and in which state: as long as this text is the same, so are the sums. Nothing where the file is not
// there, or has changed so lately that its time could be the same after another change.
std::optional<std::string> identityOfFile(const std::string& path);

// Sums as eight hexadecimal digits each, and back; nothing where the text is not that.
std::string digitsOf(const std::vector<uint32_t>& sums);
std::optional<std::vector<uint32_t>> sumsFromDigits(std::string_view digits);

// A file that states start from.
struct ModelFile {
  ModelFile(std::string file) : path(std::move(file)) {}  // NOLINT: implicit by design
  ModelFile(std::string file, FileSums expected) : path(std::move(file)), sums(std::move(expected)) {}

  std::string path;
  std::optional<FileSums> sums;  // nothing: its bytes are taken as they are; a manifest's files always have them
};

}  // namespace hycrt

#endif  // HYCRT_FILE_SUMS_H_
