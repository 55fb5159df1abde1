// TokenFile: a file of tokens cut into windows; a window is a sample (dataset.h).
//
// Kinds. hyc's own, which `hyc data` writes: a header of 64 bytes, little-endian,
//
//   "hyctoken", u32 version 1, u32 bytes of a token (1, 2 or 4), u64 size of the vocabulary (0: not told), u64 tokens,
//   u64 documents, u64 where tokens begin in the file, u64 where documents' ends do (a u64 each, in tokens), u64 where
//   the mask does (0: there is none; else a bit a token, the lowest of a byte first: whether it counts as a label)
//
// and these three in this order. Megatron's .bin with its .idx beside it. llm.c's .bin: 256 int32 of header (magic
// 20240520, version 1, count, then u16 tokens; magic 20240801, version 7, count, then u32 tokens). Bytes: each is a
// token. uint16 and uint32, little-endian without a header, as nanoGPT writes them. The first and the third are known
// by their magic, bytes where it is text (UTF-8 without NUL); of any other file somebody has to say what it is: a file
// of uint16 read as bytes trains, and means nothing. The first two know where documents begin.
//
// Windows. Window w is tokens [w * S, w * S + S + 1): S inputs and the label of the last. Neighbours share one token,
// so every token but the first is a label once. What does not fill a window at the end is left out.
//
// Nothing is kept in memory: a window is read when it is asked for. A file that shrinks meanwhile, and a token that
// the vocabulary does not hold, are data errors that name the file and the token's index. Files of up to kWholeBytes
// are looked at as a whole when they are opened, of larger ones as much at their beginning and spread over the rest.
#ifndef HYCRT_SRC_IO_TOKEN_FILE_H_
#define HYCRT_SRC_IO_TOKEN_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "hycrt/options.h"
#include "hycrt/status.h"
#include "io/document_index.h"

namespace hycrt {

class TokenFile {
 public:
  static constexpr int64_t kWholeBytes = int64_t{64} << 20;

  // Refuses a file without one whole window, and one that is not what `format` says or, with kAuto, of no known kind.
  static Result<TokenFile> open(const std::string& path, int64_t sequence, DataFormat format = DataFormat::kAuto);

  int64_t tokenCount() const { return tokenCount_; }
  int64_t windowCount() const { return windowCount_; }

  // The S + 1 tokens of a window; each must be less than bound.
  Status read(int64_t window, int64_t bound, std::vector<uint32_t>* tokens) const;

  // Tokens [first, first + count), each less than bound, and whether they count.
  Status readTokens(int64_t first, int64_t count, int64_t bound, uint32_t* tokens) const;
  Status readMask(int64_t first, int64_t count, uint8_t* counts) const;

  // Null: nobody knows where they begin.
  DocumentIndex* documents() { return documents_ ? &*documents_ : nullptr; }

  // The same of all tokens at once, or of as many as are looked at of a large file.
  Status checkTokens(int64_t bound) const;

 private:
  TokenFile() = default;
  Status detect(int64_t fileBytes, DataFormat format);
  Status takeOwnHeader(int64_t fileBytes);
  Status takeMegatron(int64_t fileBytes, const std::string& index);
  Status takeHeader(int64_t fileBytes, const int32_t* header);
  Status takeWidth(int64_t fileBytes, int64_t tokenBytes);
  Status checkText(int64_t fileBytes) const;
  Status checkBlock(int64_t first, int64_t count, int64_t bound, std::vector<unsigned char>* bytes) const;
  Status beyondVocabulary(int64_t index, uint32_t token, int64_t bound) const;

  std::string path_;
  FileDescriptor file_;
  int64_t sequence_ = 0;
  int64_t dataOffset_ = 0;
  int64_t tokenBytes_ = 1;
  int64_t tokenCount_ = 0;
  int64_t windowCount_ = 0;
  int64_t maskOffset_ = 0;  // 0: all count
  std::optional<DocumentIndex> documents_;
  mutable std::vector<unsigned char> bytes_;  // of a window; kept, since a step must not allocate
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_TOKEN_FILE_H_
