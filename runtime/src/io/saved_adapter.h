// What programs with adapters of low rank save: the adapters alone, as peft stores them, or the model's weights with
// the adapters' products added.
//
// Merging gathers nothing over ranks: all of them write A and B into a file first, from which each then reads what it
// needs for its own part of a weight.
#ifndef HYCRT_SRC_IO_SAVED_ADAPTER_H_
#define HYCRT_SRC_IO_SAVED_ADAPTER_H_

#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "hycrt/manifest.h"
#include "hycrt/safetensors.h"
#include "hycrt/status.h"

namespace hycrt {

// The name that peft has for a parameter; empty for one that is no part of the adapter. What is trained whole beside A
// and B is.
std::string nameInAdapter(const Adapter& adapter, const std::string& parameter);

// Whether a parameter is called as A, B and magnitudes are.
bool isNameOfAdapter(const std::string& parameter);

// The name of a parameter among the model's own; empty for A and B.
std::string nameInModel(const Adapter& adapter, const std::string& parameter);

// Adds scale · B · A to weights, from a file of what nameInAdapter takes; with magnitudes (DoRA), once all ranks have
// written their parts of the sums, each output's weights are made as long as its magnitude says.
class AdapterMerge {
 public:
  static Result<AdapterMerge> open(const Adapter& adapter, const std::string& path);

  // `values` are elements [global, global + count) of a parameter, row-major; those without an adapter stay.
  Status add(const std::string& parameter, int64_t global, int64_t count, float* values);

  // Of the weights in the file `path`, which all ranks have written, those of every `step`th layer from `first` on.
  // Nothing of adapters without magnitudes.
  Status toLengths(const std::string& path, FolderLink link, int64_t first, int64_t step) const;

 private:
  AdapterMerge(std::string path, FileDescriptor file, TensorDirectory directory)
      : path_(std::move(path)), file_(std::move(file)), directory_(std::move(directory)) {}

  struct Layer {
    bool inputsFirst;
    const TensorEntry* inner;    // A: [rank, inputs]
    const TensorEntry* outer;    // B: [outputs, rank]
    const TensorEntry* lengths;  // [outputs], or null
  };
  Status load(const std::string& parameter, const Layer& layer);
  // A file that all ranks have written.
  struct Written {
    const std::string& path;
    FileDescriptor reading, writing;
  };
  Status toLength(const Layer& layer, const Written& file, const TensorEntry& weight) const;

  std::string path_;
  FileDescriptor file_;
  TensorDirectory directory_;
  double scale_ = 0;
  std::map<std::string, Layer> layers_;  // by the weight's name
  // Of the parameter that was asked for last.
  std::string loaded_;
  std::vector<float> inner_, outer_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_SAVED_ADAPTER_H_
