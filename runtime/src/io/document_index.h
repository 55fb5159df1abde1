// DocumentIndex: where the documents of a token file begin. Of hyc's own files it is a list of their ends, of
// Megatron's the .idx beside the .bin.
//
// Little is kept in memory, the beginning of every 64th document; what lies between is read when it is asked for. The
// whole list is looked at once, when it is opened: documents lie one behind the other and fill the file.
//
// Threading: one thread at a time.
#ifndef HYCRT_SRC_IO_DOCUMENT_INDEX_H_
#define HYCRT_SRC_IO_DOCUMENT_INDEX_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "hycrt/status.h"

namespace hycrt {

class DocumentIndex {
 public:
  static constexpr int64_t kApart = 64;  // documents from one whose beginning is kept to the next

  // Of `documents` numbers of 64 bits at `offset` of the file: where each ends.
  static Result<DocumentIndex> ofEnds(const std::string& path, int64_t offset, int64_t documents, int64_t tokens);

  // Of Megatron's .idx. The bytes of a token in the .bin, and how many there are, are told.
  static Result<DocumentIndex> ofMegatron(const std::string& path, int64_t* tokenBytes, int64_t* tokens);

  int64_t count() const { return count_; }
  int64_t keptBytes() const { return static_cast<int64_t>(kept_.size() * sizeof(int64_t)); }

  // The tokens [*begin, *end) of a document; none where they are equal.
  Status find(int64_t document, int64_t* begin, int64_t* end);

  // Sets marks[i] where token first + i begins a document, and clears the other marks up to `count`.
  Status mark(int64_t first, int64_t count, uint8_t* marks);

 private:
  DocumentIndex() = default;
  Status keep(int64_t document, int64_t begin);
  Status load(int64_t chunk);
  Status loadOfMegatron(int64_t chunk, int64_t documents);
  Status readMegatronHeader(int64_t fileBytes, int64_t* tokenBytes);
  Status walkMegatron(int64_t tokenBytes, int64_t* tokens);

  std::string path_;
  FileDescriptor file_;
  int64_t count_ = 0, tokens_ = 0;
  int64_t offset_ = 0;                       // of the list of ends; of Megatron's list of documents
  int64_t pointersOffset_ = -1, width_ = 1;  // Megatron's: of where sequences begin, in bytes of tokens of this width
  int64_t sequences_ = 0;
  std::vector<int64_t> kept_;                 // beginnings of documents 0, kApart, …, and the number of tokens
  std::array<int64_t, kApart + 1> loaded_{};  // of the chunk
  int64_t chunk_ = -1;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_DOCUMENT_INDEX_H_
