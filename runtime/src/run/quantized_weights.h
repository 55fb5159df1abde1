// QuantizedWeights: what codes mean that programs keep in the place of frozen weights, for saving them. Scales are read
// from a file of all of them, since a rank may hold a part.
#ifndef HYCRT_SRC_RUN_QUANTIZED_WEIGHTS_H_
#define HYCRT_SRC_RUN_QUANTIZED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "hycrt/program.h"
#include "hycrt/safetensors.h"
#include "hycrt/status.h"

namespace hycrt {

class QuantizedWeights {
 public:
  // `path` holds the scales of the program's weights by their names, whole. The program outlives this.
  static Result<QuantizedWeights> open(const Program& program, const std::string& path);

  // `from` are elements [global, global + count) of a state of codes, `values` the weights that they mean.
  Status decode(const StateDesc& codes, int64_t global, int64_t count, const std::byte* from, float* values);

 private:
  QuantizedWeights(const Program& program, std::string path, FileDescriptor file, TensorDirectory directory)
      : program_(&program), path_(std::move(path)), file_(std::move(file)), directory_(std::move(directory)) {}

  Status load(const StateDesc& codes);

  const Program* program_;
  std::string path_;
  FileDescriptor file_;
  TensorDirectory directory_;
  // Of the state that was asked for last: absmax of each block.
  const StateDesc* loaded_ = nullptr;
  std::vector<float> absmax_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_QUANTIZED_WEIGHTS_H_
