// Reading both kinds of lists of documents, block by block.
#include "io/document_index.h"

#include <algorithm>
#include <cstring>

namespace hycrt {
namespace {

constexpr int64_t kBlock = int64_t{1} << 16;  // numbers that are read at once
constexpr char kMegatronMagic[] = "MMIDIDX\0";
constexpr int64_t kMegatronHeader = 9 + 8 + 1 + 8 + 8;

template <typename T>
Status readNumbers(const FileDescriptor& file, const std::string& path, int64_t offset, int64_t first, int64_t count,
                   T* to) {
  constexpr int64_t kWidth = sizeof(T);
  return readAt(file, path, to, count * kWidth, offset + first * kWidth);
}

// Bytes of a token, by Megatron's code of its type; 0: none that a token has.
int64_t megatronWidth(uint8_t code) {
  switch (code) {
    case 1:
      return 1;  // uint8
    case 4:
      return 4;  // int32
    case 8:
      return 2;  // uint16
    default:
      return 0;
  }
}

}  // namespace

// Chunks' beginnings are kept; `begin` follows the one before, which whoever walks has checked.
Status DocumentIndex::keep(int64_t document, int64_t begin) {
  if (document % kApart == 0) kept_.push_back(begin);
  return {};
}

Result<DocumentIndex> DocumentIndex::ofEnds(const std::string& path, int64_t offset, int64_t documents,
                                            int64_t tokens) {
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  DocumentIndex index;
  index.path_ = path;
  index.file_ = std::move(*file);
  index.count_ = documents;
  index.tokens_ = tokens;
  index.offset_ = offset;
  std::vector<int64_t> ends(static_cast<size_t>(std::min(kBlock, documents)));
  int64_t begin = 0;
  for (int64_t first = 0; first < documents; first += kBlock) {
    const int64_t count = std::min(kBlock, documents - first);
    HYCRT_RETURN_IF_ERROR(readNumbers(index.file_, path, offset, first, count, ends.data()));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t end = ends[static_cast<size_t>(i)];
      if (end < begin || end > tokens) {
        return dataError("'" + path + "', document " + std::to_string(first + i) + ": ends at token " +
                         std::to_string(end) + ", expected " + std::to_string(begin) + " to " + std::to_string(tokens));
      }
      HYCRT_RETURN_IF_ERROR(index.keep(first + i, begin));
      begin = end;
    }
  }
  if (begin != tokens) {
    return dataError("'" + path + "': the last document ends at token " + std::to_string(begin) + " of " +
                     std::to_string(tokens) + ", expected all of them in documents");
  }
  index.kept_.push_back(tokens);
  return index;
}

Result<DocumentIndex> DocumentIndex::ofMegatron(const std::string& path, int64_t* tokenBytes, int64_t* tokens) {
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  Result<int64_t> bytes = fileSize(*file, path);
  if (!bytes.ok()) return bytes.status();
  DocumentIndex index;
  index.path_ = path;
  index.file_ = std::move(*file);
  HYCRT_RETURN_IF_ERROR(index.readMegatronHeader(*bytes, tokenBytes));
  HYCRT_RETURN_IF_ERROR(index.walkMegatron(*tokenBytes, tokens));
  index.tokens_ = *tokens;
  index.width_ = *tokenBytes;
  index.kept_.push_back(*tokens);
  return index;
}

Status DocumentIndex::readMegatronHeader(int64_t fileBytes, int64_t* tokenBytes) {
  char header[kMegatronHeader] = {};
  if (fileBytes < kMegatronHeader) {
    return dataError("'" + path_ + "' has " + std::to_string(fileBytes) + " bytes, expected at least the " +
                     std::to_string(kMegatronHeader) + " of the header of Megatron's .idx");
  }
  HYCRT_RETURN_IF_ERROR(readAt(file_, path_, header, sizeof header, 0));
  uint64_t version = 0, sequences = 0, documents = 0;
  std::memcpy(&version, header + 9, 8);
  std::memcpy(&sequences, header + 18, 8);
  std::memcpy(&documents, header + 26, 8);
  const uint8_t code = static_cast<uint8_t>(header[17]);
  if (std::memcmp(header, kMegatronMagic, 9) != 0 || version != 1) {
    return dataError("'" + path_ + "' does not begin as version 1 of Megatron's .idx does (MMIDIDX)");
  }
  *tokenBytes = megatronWidth(code);
  if (*tokenBytes == 0) {
    return dataError("'" + path_ + "' has tokens of type " + std::to_string(code) +
                     ", expected 1 (uint8), 4 (int32) or 8 (uint16)");
  }
  const uint64_t rest = static_cast<uint64_t>(fileBytes - kMegatronHeader);
  const bool fits = sequences <= rest / 12 && documents <= (rest - 12 * sequences) / 8 && documents >= 1;
  // Some have a mode for each sequence behind all.
  const uint64_t listed = fits ? 12 * sequences + 8 * documents : 0;
  if (!fits || (rest != listed && rest != listed + sequences)) {
    return dataError("'" + path_ + "' has " + std::to_string(fileBytes) + " bytes, expected " +
                     std::to_string(kMegatronHeader) + " + 12 for each of " + std::to_string(sequences) +
                     " sequences + 8 for each of " + std::to_string(documents) + " documents' beginnings");
  }
  sequences_ = static_cast<int64_t>(sequences);
  count_ = static_cast<int64_t>(documents) - 1;
  pointersOffset_ = kMegatronHeader + 4 * sequences_;
  offset_ = pointersOffset_ + 8 * sequences_;
  return {};
}

// Sequences lie one behind the other, and documents are whole sequences.
Status DocumentIndex::walkMegatron(int64_t tokenBytes, int64_t* tokens) {
  std::vector<int32_t> lengths(static_cast<size_t>(std::min(kBlock, sequences_)));
  std::vector<int64_t> pointers(lengths.size()), firsts(static_cast<size_t>(std::min(kBlock, count_ + 1)));
  int64_t begin = 0, document = 0, loaded = 0, last = 0;
  for (int64_t first = 0; first <= sequences_; first += kBlock) {
    const int64_t count = std::min(kBlock, sequences_ - first);
    HYCRT_RETURN_IF_ERROR(readNumbers(file_, path_, kMegatronHeader, first, count, lengths.data()));
    HYCRT_RETURN_IF_ERROR(readNumbers(file_, path_, pointersOffset_, first, count, pointers.data()));
    const bool isLast = first + count == sequences_;
    for (int64_t i = 0; i < count + isLast; ++i) {
      for (; document <= count_; ++document) {
        if (document >= loaded) {
          const int64_t more = std::min(kBlock, count_ + 1 - loaded);
          HYCRT_RETURN_IF_ERROR(readNumbers(file_, path_, offset_, loaded, more, firsts.data()));
          loaded += more;
        }
        const int64_t sequence = firsts[static_cast<size_t>(document % kBlock)];
        if (sequence > first + i) break;
        if (sequence < first + i || (document == 0 && sequence != 0)) {
          return dataError("'" + path_ + "', document " + std::to_string(document) + ": begins with sequence " +
                           std::to_string(sequence) + ", expected them in order, from 0 to " +
                           std::to_string(sequences_));
        }
        if (document < count_) HYCRT_RETURN_IF_ERROR(keep(document, begin));
        last = sequence;
      }
      if (i == count) break;
      const int64_t length = lengths[static_cast<size_t>(i)], pointer = pointers[static_cast<size_t>(i)];
      if (length < 0 || pointer != begin * tokenBytes) {
        return dataError("'" + path_ + "', sequence " + std::to_string(first + i) + ": has length " +
                         std::to_string(length) + " at byte " + std::to_string(pointer) + ", expected byte " +
                         std::to_string(begin * tokenBytes) + ", where the one before ends");
      }
      begin += length;
    }
    if (isLast) break;
  }
  if (document != count_ + 1) {
    return dataError("'" + path_ + "', document " + std::to_string(document) + ": begins behind the last of " +
                     std::to_string(sequences_) + " sequences");
  }
  if (last != sequences_) {
    return dataError("'" + path_ + "': the last document ends with sequence " + std::to_string(last) +
                     ", expected the last of all, " + std::to_string(sequences_));
  }
  *tokens = begin;
  return {};
}

Status DocumentIndex::load(int64_t chunk) {
  if (chunk_ == chunk) return {};
  const int64_t first = chunk * kApart, documents = std::min(kApart, count_ - first);
  chunk_ = -1;
  if (pointersOffset_ >= 0) {
    HYCRT_RETURN_IF_ERROR(loadOfMegatron(chunk, documents));
  } else {
    HYCRT_RETURN_IF_ERROR(readNumbers(file_, path_, offset_, first, documents, loaded_.data() + 1));
    loaded_[0] = kept_[static_cast<size_t>(chunk)];
  }
  for (int64_t i = 0; i < documents; ++i) {
    if (loaded_[static_cast<size_t>(i)] <= loaded_[static_cast<size_t>(i) + 1] &&
        loaded_[static_cast<size_t>(i) + 1] <= tokens_) {
      continue;
    }
    return dataError("'" + path_ + "' has changed while it was read: document " + std::to_string(first + i) +
                     " ends at token " + std::to_string(loaded_[static_cast<size_t>(i) + 1]));
  }
  chunk_ = chunk;
  return {};
}

Status DocumentIndex::loadOfMegatron(int64_t chunk, int64_t documents) {
  std::array<int64_t, kApart + 1> sequences;
  HYCRT_RETURN_IF_ERROR(readNumbers(file_, path_, offset_, chunk * kApart, documents + 1, sequences.data()));
  for (int64_t i = 0; i <= documents; ++i) {
    const int64_t sequence = sequences[static_cast<size_t>(i)];
    int64_t& begin = loaded_[static_cast<size_t>(i)];
    if (sequence >= sequences_) {
      begin = tokens_;
      continue;
    }
    HYCRT_RETURN_IF_ERROR(
        readNumbers(file_, path_, pointersOffset_, std::max<int64_t>(sequence, 0), int64_t{1}, &begin));
    begin /= width_;
  }
  return {};
}

Status DocumentIndex::find(int64_t document, int64_t* begin, int64_t* end) {
  HYCRT_RETURN_IF_ERROR(load(document / kApart));
  const size_t at = static_cast<size_t>(document % kApart);
  *begin = loaded_[at];
  *end = loaded_[at + 1];
  return {};
}

Status DocumentIndex::mark(int64_t first, int64_t count, uint8_t* marks) {
  std::fill(marks, marks + count, uint8_t{0});
  const auto after = std::upper_bound(kept_.begin(), kept_.end() - 1, first);
  int64_t document = std::max<int64_t>(0, after - kept_.begin() - 1) * kApart;
  for (; document < count_; ++document) {
    int64_t begin = 0, end = 0;
    HYCRT_RETURN_IF_ERROR(find(document, &begin, &end));
    if (begin >= first + count) break;
    if (begin >= first) marks[begin - first] = 1;
  }
  return {};
}

}  // namespace hycrt
