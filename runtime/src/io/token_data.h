// TokenData: windows of a token file as samples: tokens, labels, positions, and what counts.
//
// Where documents are known a model that reads positions has them begin at 0 with each document, and the first token of
// a document is nobody's label: what was before it lies in another. In the order of documents windows are cut from a
// stream in which every epoch has the documents in another order.
#ifndef HYCRT_SRC_IO_TOKEN_DATA_H_
#define HYCRT_SRC_IO_TOKEN_DATA_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/dataset.h"
#include "io/document_order.h"
#include "io/token_file.h"

namespace hycrt {

class TokenData : public Dataset {
 public:
  static Result<std::unique_ptr<Dataset>> open(const std::string& path, const Program& program, DataFormat format,
                                               WindowOrder order);

  int64_t sampleCount() const override { return file_.windowCount(); }
  bool isOfOneLength() const override { return true; }
  Status checkIndices(const InputDesc& input) override;
  Status read(uint64_t item, uint64_t seed, const InputDesc& input, std::byte* to) override;

 private:
  TokenData(TokenFile file, int64_t sequence, WindowOrder order);
  Status load(uint64_t item, uint64_t seed, int64_t bound);
  Status loadInFile(int64_t window, int64_t bound);
  Status loadByDocument(uint64_t seed, uint64_t epoch, int64_t window, int64_t bound);
  template <typename T>
  void store(const InputDesc& input, T* to) const;
  int64_t valueOf(const InputDesc& input, size_t i) const;

  TokenFile file_;
  const int64_t sequence_;
  std::optional<DocumentOrder> documentOrder_;
  // Of the window that was read last, S + 1 each; kept, since a step must not allocate.
  std::vector<uint32_t> tokens_;
  std::vector<uint8_t> begins_, counts_;  // a document; as a label
  std::vector<int64_t> positions_;
  bool isLoaded_ = false;
  uint64_t item_ = 0, seed_ = 0;
  int64_t bound_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_TOKEN_DATA_H_
