// Dataset: what a run trains on, as samples that can be asked for by number. Two kinds: windows of a token file
// (token_file.h), and a safetensors file that holds one tensor an input, whose dimension 0 is the sample.
//
// Samples of a run. With N samples in the data and a global batch of G, sample n of step k (both from 0) is item
// i = k * G + n of an endless list: epoch e = i / N, place i % N in that epoch's order. The order of an epoch is a
// permutation keyed by (seed, e), or the order of the file. So a sample depends on (seed, k, n) only.
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
  virtual ~Dataset() = default;

  virtual int64_t sampleCount() const = 0;

  // Whether indices are within what `input` indexes, as far as can be told without long work; `read` tells of the rest.
  virtual Status checkIndices(const InputDesc& input) = 0;

  // Writes what sample `sample` has of `input`: elementCount(input.sample) elements of its type.
  virtual Status read(int64_t sample, const InputDesc& input, std::byte* to) = 0;

  // Which sample item i of the endless list is.
  int64_t sampleOf(uint64_t item, uint64_t seed, WindowOrder order) const {
    return sampleAt(item, sampleCount(), seed, order);
  }
  static int64_t sampleAt(uint64_t item, int64_t sampleCount, uint64_t seed, WindowOrder order);
};

// A file whose name ends in .safetensors holds tensors, any other tokens.
bool isSampleFile(const std::string& path);

// `flag` is the option that names the file. Tokens are as `format` says. Data errors where it does not fit what the
// program reads: they name the input and what was found.
Result<std::unique_ptr<Dataset>> openDataset(const char* flag, const std::string& path, const Program& program,
                                             DataFormat format = DataFormat::kAuto);

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_DATASET_H_
