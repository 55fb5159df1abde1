// Tensors in files of torch.save: a zip archive of a pickle, data.pkl, that says what there is, and the bytes of each
// storage beside it.
#ifndef HYCRT_SRC_CHECKPOINT_TORCH_TORCH_TENSOR_H_
#define HYCRT_SRC_CHECKPOINT_TORCH_TORCH_TENSOR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/torch/pickle_reader.h"
#include "checkpoint/torch/pickle_writer.h"
#include "checkpoint/torch/zip_file.h"
#include "hycrt/status.h"
#include "hycrt/types.h"

namespace hycrt {

// "float32", as torch.float32 is called, and back; what no state is of has none.
std::string_view torchName(DType dtype);
std::optional<DType> typeOfTorch(std::string_view name);

// Sizes of a torch.Size or a tuple; none: it is neither, or of more dimensions than a tensor may have.
std::optional<Shape> shapeOf(const Pickle& pickle, Pickle::Value value);
void writeShape(const Shape& shape, PickleWriter* pickle);

// A tensor that a pickle tells of, and where its elements are.
struct TorchTensor {
  DType dtype = DType::kF32;
  Shape shape;
  Shape stride;
  int64_t first = 0;    // element of the storage
  std::string storage;  // a record of the archive
};

// One file: what its pickle says, and its archive.
class TorchFile {
 public:
  // The archive in bytes [begin, begin + bytes); `file` outlives it.
  static Result<TorchFile> open(const FileDescriptor& file, const std::string& path, int64_t begin, int64_t bytes);

  const Pickle& pickle() const { return pickle_; }
  // Every number is checked against the storage.
  Result<TorchTensor> tensorOf(Pickle::Value value) const;
  // Elements in the order of the shape. The storage, which is read whole, is compared with its sum.
  Status read(const TorchTensor& tensor, std::vector<std::byte>* elements) const;

 private:
  TorchFile(ZipReader archive, Pickle pickle) : archive_(std::move(archive)), pickle_(std::move(pickle)) {}
  Status readStorage(Pickle::Value value, TorchTensor* tensor, int64_t* elements) const;

  ZipReader archive_;
  Pickle pickle_;
};

// Writes what torch.load makes of `pickle` again, where its tensors are in `storage`, under the name 0.
Status writeTorchFile(const std::string& pickle, const std::vector<std::byte>& storage, StreamFile* file);
// The value of a contiguous tensor in storage 0.
void writeTensor(DType dtype, const Shape& shape, PickleWriter* pickle);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_TORCH_TORCH_TENSOR_H_
