// DocumentOrder: all documents of a token file one behind the other in an order of their own for each epoch, as one
// stream of tokens. Which documents lie at a place of the stream is found from where every 64th of them begins there;
// that list is made anew when an epoch is first asked for, by asking for each document's length.
//
// Threading: one thread at a time.
#ifndef HYCRT_SRC_IO_DOCUMENT_ORDER_H_
#define HYCRT_SRC_IO_DOCUMENT_ORDER_H_

#include <cstdint>
#include <vector>

#include "hycrt/status.h"
#include "io/document_index.h"

namespace hycrt {

class DocumentOrder {
 public:
  // `documents` outlives it.
  explicit DocumentOrder(DocumentIndex* documents);

  // A part of a document: where it lies in the file, and whether it is the document's beginning.
  struct Part {
    int64_t first, count;
    bool begins;
  };

  // The part that lies at `place` of the stream of an epoch, of at most `most` tokens.
  Status at(uint64_t seed, uint64_t epoch, int64_t place, int64_t most, Part* part);

 private:
  static constexpr int64_t kApart = 64;
  Status makeList(uint64_t seed, uint64_t epoch);
  Status documentAt(int64_t place, int64_t* begin, int64_t* end);

  DocumentIndex* documents_;
  std::vector<int64_t> begins_;  // of places 0, kApart, …; its size never changes
  uint64_t seed_ = 0, epoch_ = 0;
  bool isMade_ = false;
  int64_t document_ = 0, passed_ = 0;  // what was found last, and where it begins
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_DOCUMENT_ORDER_H_
