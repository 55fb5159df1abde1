// SampleFile: samples of any kind as a safetensors file. One tensor an input, by the input's name; dimension 0 is the
// sample, the others are the input's own. Types are converted where nothing is lost by it: integers to integers and to
// floats, floats to f32. Images may lie there larger than they are read (image_view.h).
//
// Nothing is kept in memory: a sample is read when it is asked for. An index that a table does not hold is a data error
// that names the tensor and the sample; -100, the label that no loss counts, is let through.
#ifndef HYCRT_SRC_IO_SAMPLE_FILE_H_
#define HYCRT_SRC_IO_SAMPLE_FILE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "hycrt/safetensors.h"
#include "io/dataset.h"
#include "io/image_view.h"

namespace hycrt {

class SampleFile : public Dataset {
 public:
  // Refuses a file that lacks an input, or in which it has another shape or an unfit type, or that holds no sample.
  static Result<std::unique_ptr<Dataset>> open(const std::string& path, Table<InputDesc> inputs, WindowOrder order);

  int64_t sampleCount() const override { return count_; }
  Status checkIndices(const InputDesc& input) override;
  Status read(uint64_t item, uint64_t seed, const InputDesc& input, std::byte* to) override;

 private:
  explicit SampleFile(WindowOrder order) : Dataset(order) {}
  Status readSample(int64_t sample, const InputDesc& input, std::byte* to);
  bool isImage(const InputDesc& input) const;
  Status count(const TensorDirectory& directory);
  Status check(const TensorDirectory& directory, const InputDesc& input);
  Status checkDocuments(const TensorDirectory& directory, Table<InputDesc> inputs) const;
  Status checkBound(const int64_t* values, int64_t count, const InputDesc& input, int64_t sample) const;

  std::string path_;
  FileDescriptor file_;
  int64_t count_ = 0;
  std::optional<ImageView> images_;
  std::map<std::string, TensorEntry, std::less<>> tensors_;  // of the inputs
  std::vector<std::byte> bytes_;                             // of a sample; kept, since a step must not allocate
  std::vector<int64_t> wide_;                                // the same of integers that are narrowed
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_SAMPLE_FILE_H_
