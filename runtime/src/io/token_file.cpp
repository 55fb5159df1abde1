// Which kind of token file it is, and reading a window with every token checked.
#include "io/token_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "io/text_check.h"

namespace hycrt {
namespace {

constexpr int64_t kHeaderBytes = 1024;
constexpr int32_t kMagicU16 = 20240520, kVersionU16 = 1;
constexpr int32_t kMagicU32 = 20240801, kVersionU32 = 7;

constexpr char kOwnMagic[] = "hyctoken";
constexpr uint32_t kOwnVersion = 1;
struct OwnHeader {
  char magic[8];
  uint32_t version, tokenBytes;
  uint64_t vocabulary, tokens, documents, tokensAt, endsAt, maskAt;
};
static_assert(sizeof(OwnHeader) == 64);

bool endsWith(const std::string& text, const char* end) {
  const size_t length = std::strlen(end);
  return text.size() >= length && text.compare(text.size() - length, length, end) == 0;
}

// The .idx beside NAME.bin, where there is one that Megatron's tools have written.
std::string megatronIndexOf(const std::string& path) {
  if (!endsWith(path, ".bin")) return "";
  const std::string index = path.substr(0, path.size() - 4) + ".idx";
  if (access(index.c_str(), R_OK) != 0) return "";
  Result<FileDescriptor> file = openForReading(index);
  char magic[9] = {};
  const bool isOne = file.ok() && readAt(*file, index, magic, sizeof magic, 0).ok() &&
                     std::memcmp(magic, "MMIDIDX\0", sizeof magic) == 0;
  return isOne ? index : "";
}

constexpr int64_t kBlockBytes = int64_t{1} << 20;  // a multiple of any token's size

struct Span {
  int64_t begin, end;
};

// What is looked at of a file of `bytes`: half of kWholeBytes at its beginning, and blocks up to its end.
std::vector<Span> spansOf(int64_t bytes) {
  if (bytes <= TokenFile::kWholeBytes) return {{0, bytes}};
  constexpr int64_t kFirst = TokenFile::kWholeBytes / 2, kCount = kFirst / kBlockBytes;
  std::vector<Span> spans = {{0, kFirst}};
  for (int64_t i = 1; i <= kCount; ++i) {
    const int64_t end = kFirst + (bytes - kFirst) / kCount * i / kBlockBytes * kBlockBytes;
    spans.push_back({i == kCount ? (bytes - kBlockBytes) / 4 * 4 : end - kBlockBytes, i == kCount ? bytes : end});
  }
  return spans;
}

uint32_t tokenAt(const unsigned char* bytes, int64_t width) {
  uint32_t token = 0;
  for (int64_t i = width - 1; i >= 0; --i) token = token << 8 | bytes[i];
  return token;
}

}  // namespace

Result<TokenFile> TokenFile::open(const std::string& given, int64_t sequence, DataFormat format) {
  const bool isIndex = format == DataFormat::kAuto && endsWith(given, ".idx");
  const std::string path = isIndex ? given.substr(0, given.size() - 4) + ".bin" : given;
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  Result<int64_t> bytes = fileSize(*file, path);
  if (!bytes.ok()) return bytes.status();
  TokenFile tokens;
  tokens.path_ = path;
  tokens.sequence_ = sequence;
  tokens.file_ = std::move(*file);
  HYCRT_RETURN_IF_ERROR(tokens.detect(*bytes, format));
  if (tokens.tokenCount_ < sequence + 1) {
    return dataError("'" + path + "' holds " + std::to_string(tokens.tokenCount_) + " tokens, expected at least " +
                     std::to_string(sequence + 1) + " (a sequence and one ahead)");
  }
  tokens.windowCount_ = (tokens.tokenCount_ - 1) / sequence;
  tokens.bytes_.reserve(static_cast<size_t>((sequence + 1) * tokens.tokenBytes_));
  return tokens;
}

// llm.c's magics cannot begin a text: the first byte of both is one from the middle of a character.
Status TokenFile::detect(int64_t fileBytes, DataFormat format) {
  if (format == DataFormat::kUint16) return takeWidth(fileBytes, 2);
  if (format == DataFormat::kUint32) return takeWidth(fileBytes, 4);
  tokenCount_ = fileBytes;
  if (format == DataFormat::kBytes) return {};
  if (format == DataFormat::kAuto) {
    if (const std::string index = megatronIndexOf(path_); !index.empty()) return takeMegatron(fileBytes, index);
  }
  char magic[9] = {};
  if (fileBytes >= static_cast<int64_t>(sizeof(OwnHeader))) {
    HYCRT_RETURN_IF_ERROR(readAt(file_, path_, magic, 8, 0));
    if (std::strcmp(magic, kOwnMagic) == 0 && format == DataFormat::kAuto) return takeOwnHeader(fileBytes);
  }
  int32_t header[3] = {};
  if (fileBytes >= static_cast<int64_t>(sizeof header)) {
    HYCRT_RETURN_IF_ERROR(readAt(file_, path_, header, sizeof header, 0));
  }
  if (header[0] == kMagicU16 || header[0] == kMagicU32) return takeHeader(fileBytes, header);
  if (format == DataFormat::kAuto) return checkText(fileBytes);
  return dataError("'" + path_ + "' begins with " + std::to_string(header[0]) +
                   ", expected the magic of llm.c's files, " + std::to_string(kMagicU16) + " or " +
                   std::to_string(kMagicU32) + ", as --data-format llmc says");
}

// Sections lie one behind the other and fill the file; no number of the header is used before it has been held to the
// file's size.
Status TokenFile::takeOwnHeader(int64_t fileBytes) {
  OwnHeader header;
  HYCRT_RETURN_IF_ERROR(readAt(file_, path_, &header, sizeof header, 0));
  const bool isKnown =
      header.version == kOwnVersion && (header.tokenBytes == 1 || header.tokenBytes == 2 || header.tokenBytes == 4);
  if (!isKnown) {
    return dataError("'" + path_ + "' is a token file of version " + std::to_string(header.version) +
                     " with tokens of " + std::to_string(header.tokenBytes) +
                     " bytes, expected version 1 with 1, 2 or 4");
  }
  const uint64_t bytes = static_cast<uint64_t>(fileBytes), width = header.tokenBytes;
  const uint64_t maskBytes = header.maskAt == 0 ? 0 : header.tokens / 8 + (header.tokens % 8 != 0);
  const bool fits = header.tokens <= bytes / width && header.documents <= bytes / 8 &&
                    header.tokensAt == sizeof header &&
                    header.endsAt == (header.tokensAt + header.tokens * width + 7) / 8 * 8 &&
                    (header.maskAt == 0 || header.maskAt == header.endsAt + header.documents * 8) &&
                    bytes == header.endsAt + header.documents * 8 + maskBytes;
  if (!fits) {
    return dataError("'" + path_ + "' has " + std::to_string(fileBytes) + " bytes, expected a header of 64, " +
                     std::to_string(header.tokens) + " tokens of " + std::to_string(width) + ", the ends of " +
                     std::to_string(header.documents) + " documents" + (header.maskAt == 0 ? "" : " and a mask") +
                     ", as its header says; it is torn, or was never finished");
  }
  tokenBytes_ = static_cast<int64_t>(width);
  tokenCount_ = static_cast<int64_t>(header.tokens);
  dataOffset_ = static_cast<int64_t>(header.tokensAt);
  maskOffset_ = static_cast<int64_t>(header.maskAt);
  Result<DocumentIndex> documents = DocumentIndex::ofEnds(path_, static_cast<int64_t>(header.endsAt),
                                                          static_cast<int64_t>(header.documents), tokenCount_);
  if (!documents.ok()) return documents.status();
  documents_ = std::move(*documents);
  return {};
}

Status TokenFile::takeMegatron(int64_t fileBytes, const std::string& path) {
  Result<DocumentIndex> documents = DocumentIndex::ofMegatron(path, &tokenBytes_, &tokenCount_);
  if (!documents.ok()) return documents.status();
  documents_ = std::move(*documents);
  if (tokenCount_ <= fileBytes / tokenBytes_ && tokenCount_ * tokenBytes_ == fileBytes) return {};
  return dataError("'" + path_ + "' has " + std::to_string(fileBytes) + " bytes, expected " +
                   std::to_string(tokenCount_) + " tokens of " + std::to_string(tokenBytes_) + " bytes, as '" + path +
                   "' says");
}

Status TokenFile::takeHeader(int64_t fileBytes, const int32_t* header) {
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

Status TokenFile::takeWidth(int64_t fileBytes, int64_t tokenBytes) {
  tokenBytes_ = tokenBytes;
  tokenCount_ = fileBytes / tokenBytes;
  if (fileBytes % tokenBytes == 0) return {};
  return dataError("'" + path_ + "' has " + std::to_string(fileBytes) + " bytes, expected a multiple of " +
                   std::to_string(tokenBytes) + ", as --data-format uint" + std::to_string(8 * tokenBytes) + " says");
}

Status TokenFile::checkText(int64_t fileBytes) const {
  std::vector<unsigned char> bytes;
  for (const Span& span : spansOf(fileBytes)) {
    for (int64_t at = span.begin; at < span.end;) {
      const int64_t count = std::min(kBlockBytes, fileBytes - at);
      bytes.resize(static_cast<size_t>(count));
      HYCRT_RETURN_IF_ERROR(readAt(file_, path_, bytes.data(), count, at));
      size_t skipped = 0;  // of a character that began in front of a span in the middle
      while (at > 0 && at == span.begin && skipped < 3 && (bytes[skipped] & 0xC0) == 0x80) ++skipped;
      const TextCheck text = hycrt::checkText(bytes.data() + skipped, bytes.size() - skipped);
      const int64_t valid = static_cast<int64_t>(skipped + text.valid);
      // A text may be cut off inside of its last character.
      if (valid == count || text.isUnfinished) {
        at += at + count == fileBytes ? count : valid;
        continue;
      }
      const unsigned char byte = bytes[static_cast<size_t>(valid)];
      char found[64];
      std::snprintf(found, sizeof found, byte == 0 ? "is NUL" : "is 0x%02x, no part of UTF-8", unsigned{byte});
      return dataError("'" + path_ + "' is neither text (byte " + std::to_string(at + valid) + " " + found +
                       ") nor one of llm.c's files; say what it holds by --data-format: bytes, uint16 (as nanoGPT "
                       "writes them) or uint32");
    }
  }
  return {};
}

Status TokenFile::beyondVocabulary(int64_t index, uint32_t token, int64_t bound) const {
  return dataError("'" + path_ + "', token " + std::to_string(index) + ": found " + std::to_string(token) +
                   ", expected less than the vocabulary's size " + std::to_string(bound));
}

Status TokenFile::checkTokens(int64_t bound) const {
  if (bound >= int64_t{1} << (8 * tokenBytes_)) return {};  // there is no such token
  std::vector<unsigned char> bytes;
  for (const Span& span : spansOf(tokenCount_ * tokenBytes_)) {
    for (int64_t at = span.begin; at < span.end; at += kBlockBytes) {
      const int64_t count = std::min(kBlockBytes, span.end - at);
      HYCRT_RETURN_IF_ERROR(checkBlock(at / tokenBytes_, count / tokenBytes_, bound, &bytes));
    }
  }
  return {};
}

Status TokenFile::checkBlock(int64_t first, int64_t count, int64_t bound, std::vector<unsigned char>* bytes) const {
  bytes->resize(static_cast<size_t>(count * tokenBytes_));
  HYCRT_RETURN_IF_ERROR(readAt(file_, path_, bytes->data(), count * tokenBytes_, dataOffset_ + first * tokenBytes_));
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t token = tokenAt(bytes->data() + i * tokenBytes_, tokenBytes_);
    if (int64_t{token} >= bound) return beyondVocabulary(first + i, token, bound);
  }
  return {};
}

Status TokenFile::read(int64_t window, int64_t bound, std::vector<uint32_t>* tokens) const {
  tokens->resize(static_cast<size_t>(sequence_ + 1));
  return readTokens(window * sequence_, sequence_ + 1, bound, tokens->data());
}

Status TokenFile::readTokens(int64_t first, int64_t count, int64_t bound, uint32_t* tokens) const {
  bytes_.resize(static_cast<size_t>(count * tokenBytes_));
  Status status = readAt(file_, path_, bytes_.data(), count * tokenBytes_, dataOffset_ + first * tokenBytes_);
  if (status.code() == StatusCode::kData) {
    return dataError("'" + path_ + "' has shrunk while it was read: tokens " + std::to_string(first) + " to " +
                     std::to_string(first + count - 1) + " of " + std::to_string(tokenCount_) + " are gone");
  }
  HYCRT_RETURN_IF_ERROR(status);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t token = tokenAt(bytes_.data() + i * tokenBytes_, tokenBytes_);
    if (int64_t{token} >= bound) return beyondVocabulary(first + i, token, bound);
    tokens[i] = token;
  }
  return {};
}

Status TokenFile::readMask(int64_t first, int64_t count, uint8_t* counts) const {
  if (maskOffset_ == 0) {
    std::fill(counts, counts + count, uint8_t{1});
    return {};
  }
  const int64_t begin = first / 8, end = (first + count + 7) / 8;
  bytes_.resize(static_cast<size_t>(end - begin));
  HYCRT_RETURN_IF_ERROR(readAt(file_, path_, bytes_.data(), end - begin, maskOffset_ + begin));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t bit = first + i - 8 * begin;
    counts[i] = bytes_[static_cast<size_t>(bit / 8)] >> (bit % 8) & 1;
  }
  return {};
}

}  // namespace hycrt
