// Which kind of token file it is, and reading a window with every token checked.
#include "io/token_file.h"

namespace hycrt {
namespace {

constexpr int64_t kHeaderBytes = 1024;
constexpr int32_t kMagicU16 = 20240520, kVersionU16 = 1;
constexpr int32_t kMagicU32 = 20240801, kVersionU32 = 7;

uint32_t tokenAt(const unsigned char* bytes, int64_t width) {
  uint32_t token = 0;
  for (int64_t i = width - 1; i >= 0; --i) token = token << 8 | bytes[i];
  return token;
}

}  // namespace

Result<TokenFile> TokenFile::open(const std::string& path, int64_t sequence) {
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  Result<int64_t> bytes = fileSize(*file, path);
  if (!bytes.ok()) return bytes.status();
  TokenFile tokens;
  tokens.path_ = path;
  tokens.sequence_ = sequence;
  tokens.file_ = std::move(*file);
  HYCRT_RETURN_IF_ERROR(tokens.detect(*bytes));
  if (tokens.tokenCount_ < sequence + 1) {
    return dataError("'" + path + "' holds " + std::to_string(tokens.tokenCount_) + " tokens, expected at least " +
                     std::to_string(sequence + 1) + " (a sequence and one ahead)");
  }
  tokens.windowCount_ = (tokens.tokenCount_ - 1) / sequence;
  return tokens;
}

Status TokenFile::detect(int64_t fileBytes) {
  tokenCount_ = fileBytes;
  int32_t header[3] = {};
  if (fileBytes < static_cast<int64_t>(sizeof header)) return {};
  HYCRT_RETURN_IF_ERROR(readAt(file_, path_, header, sizeof header, 0));
  if (header[0] != kMagicU16 && header[0] != kMagicU32) return {};
  const int32_t version = header[0] == kMagicU16 ? kVersionU16 : kVersionU32;
  if (header[1] != version) {
    return dataError("'" + path_ + "' has magic " + std::to_string(header[0]) + " with version " +
                     std::to_string(header[1]) + ", expected version " + std::to_string(version));
  }
  tokenBytes_ = header[0] == kMagicU16 ? 2 : 4;
  dataOffset_ = kHeaderBytes;
  tokenCount_ = header[2];
  const int64_t expected = kHeaderBytes + tokenCount_ * tokenBytes_;
  if (tokenCount_ < 0 || fileBytes != expected) {
    return dataError("'" + path_ + "' has " + std::to_string(fileBytes) + " bytes, expected 1024 + " +
                     std::to_string(tokenCount_) + " tokens × " + std::to_string(tokenBytes_) + " = " +
                     std::to_string(expected) + " as its header says");
  }
  return {};
}

Status TokenFile::read(int64_t window, int64_t bound, std::vector<uint32_t>* tokens) const {
  const int64_t count = sequence_ + 1;
  const int64_t first = window * sequence_;
  bytes_.resize(static_cast<size_t>(count * tokenBytes_));
  Status status = readAt(file_, path_, bytes_.data(), count * tokenBytes_, dataOffset_ + first * tokenBytes_);
  if (status.code() == StatusCode::kData) {
    return dataError("'" + path_ + "' has shrunk while it was read: tokens " + std::to_string(first) + " to " +
                     std::to_string(first + count - 1) + " of " + std::to_string(tokenCount_) + " are gone");
  }
  HYCRT_RETURN_IF_ERROR(status);
  tokens->resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t token = tokenAt(bytes_.data() + i * tokenBytes_, tokenBytes_);
    if (int64_t{token} >= bound) {
      return dataError("'" + path_ + "', token " + std::to_string(first + i) + ": found " + std::to_string(token) +
                       ", expected less than the vocabulary's size " + std::to_string(bound));
    }
    (*tokens)[static_cast<size_t>(i)] = token;
  }
  return {};
}

}  // namespace hycrt
