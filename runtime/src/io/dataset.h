// Dataset: what a run trains on, as samples that can be asked for by number. Three kinds: windows of a token file
// (token_data.h), a safetensors file that holds one tensor an input, whose dimension 0 is the sample (sample_file.h),
// and several of either (mixture.h).
//
// Samples of a run. With N samples in the data and a global batch of G, sample n of step k (both from 0) is item
// i = k * G + n of an endless list: epoch e = i / N, place i % N in that epoch's order. The order of an epoch is a
// permutation keyed by (seed, e), of samples or of documents, or the order of the file. So a sample depends on
// (seed, k, n) only.
//
// Threading: one thread at a time.
#ifndef HYCRT_SRC_IO_DATASET_H_
#define HYCRT_SRC_IO_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "hycrt/options.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

class Dataset {
 public:
  explicit Dataset(WindowOrder order) : order_(order) {}
  virtual ~Dataset() = default;

  // Of an epoch.
  virtual int64_t sampleCount() const = 0;

  // What besides the number of samples and whether they are shuffled decides which one an item is; empty: nothing.
  virtual std::string arrangement() const { return order_ == WindowOrder::kByDocument ? "by document" : ""; }

  // Whether every sample fills the sequence, as windows of tokens do.
  virtual bool isOfOneLength() const { return false; }

  // Whether indices are within what `input` indexes, as far as can be told without long work; `read` tells of the rest.
  virtual Status checkIndices(const InputDesc& input) = 0;

  // Writes what item `item` of the endless list has of `input`: elementCount(input.sample) elements of its type.
  virtual Status read(uint64_t item, uint64_t seed, const InputDesc& input, std::byte* to) = 0;

  static int64_t sampleAt(uint64_t item, int64_t sampleCount, uint64_t seed, WindowOrder order);

 protected:
  WindowOrder order() const { return order_; }
  // Which sample of the file item i of the endless list is.
  int64_t sampleOf(uint64_t item, uint64_t seed) const { return sampleAt(item, sampleCount(), seed, order_); }

 private:
  const WindowOrder order_;
};

// A file whose name ends in .safetensors holds tensors, any other tokens.
bool isSampleFile(const std::string& path);

// How data is read: `flag` is the option that names it.
struct DataRequest {
  const char* flag;
  std::string text;  // a file, or several (mixture.h)
  DataFormat format = DataFormat::kAuto;
  WindowOrder order = WindowOrder::kShuffled;
};

// Data errors where it does not fit what the program reads: they name the input and what was found.
Result<std::unique_ptr<Dataset>> openDataset(const DataRequest& request, const Program& program);

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_DATASET_H_
