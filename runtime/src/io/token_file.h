// TokenFile: a file of tokens cut into windows; a window is a sample (dataset.h).
//
// Kinds, told apart by the first bytes: llm.c .bin (256 int32 of header: magic 20240520, version 1, count, then u16
// tokens; magic 20240801, version 7, count, then u32 tokens), and any other file: its bytes are the tokens.
//
// Windows. Window w is tokens [w * S, w * S + S + 1): S inputs and the label of the last. Neighbours share one token,
// so every token but the first is a label once. What does not fill a window at the end is left out.
//
// Nothing is kept in memory: a window is read when it is asked for. A file that shrinks meanwhile, and a token that
// the vocabulary does not hold, are data errors that name the file and the token's index.
#ifndef HYCRT_SRC_IO_TOKEN_FILE_H_
#define HYCRT_SRC_IO_TOKEN_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "hycrt/status.h"

namespace hycrt {

class TokenFile {
 public:
  // Refuses a file without one whole window.
  static Result<TokenFile> open(const std::string& path, int64_t sequence);

  int64_t tokenCount() const { return tokenCount_; }
  int64_t windowCount() const { return windowCount_; }

  // The S + 1 tokens of a window; each must be less than bound.
  Status read(int64_t window, int64_t bound, std::vector<uint32_t>* tokens) const;

 private:
  TokenFile() = default;
  Status detect(int64_t fileBytes);

  std::string path_;
  FileDescriptor file_;
  int64_t sequence_ = 0;
  int64_t dataOffset_ = 0;
  int64_t tokenBytes_ = 1;
  int64_t tokenCount_ = 0;
  int64_t windowCount_ = 0;
  mutable std::vector<unsigned char> bytes_;  // of a window; kept, since a step must not allocate
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_TOKEN_FILE_H_
