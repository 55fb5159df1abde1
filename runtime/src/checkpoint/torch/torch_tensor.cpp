// What _rebuild_tensor_v2 would have been called with: a storage, where in it the tensor begins, sizes and strides.
#include "checkpoint/torch/torch_tensor.h"

#include <cstring>

namespace hycrt {
namespace {

struct TypeRow {
  DType dtype;
  std::string_view name;     // of torch
  std::string_view storage;  // "module name"
};
constexpr TypeRow kTypes[] = {
    {DType::kF32, "float32", "torch FloatStorage"}, {DType::kF64, "float64", "torch DoubleStorage"},
    {DType::kF16, "float16", "torch HalfStorage"},  {DType::kBF16, "bfloat16", "torch BFloat16Storage"},
    {DType::kI32, "int32", "torch IntStorage"},     {DType::kI64, "int64", "torch LongStorage"},
    {DType::kU8, "uint8", "torch ByteStorage"},
};

constexpr const char *kPickleRecord = "data.pkl", *kByteOrder = "byteorder";
constexpr int64_t kMaxOrderBytes = 16;

const TypeRow& rowOf(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row;
  }
  return kTypes[0];
}

// One behind the last element of the storage that the tensor has; -1: no number has room for it.
int64_t endOf(const TorchTensor& tensor) {
  int64_t last = tensor.first;
  for (int dim = 0; dim < tensor.shape.size; ++dim) {
    int64_t reach = 0;
    if (tensor.shape[dim] == 0) return tensor.first;
    if (__builtin_mul_overflow(tensor.shape[dim] - 1, tensor.stride[dim], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return -1;
    }
  }
  return last == INT64_MAX ? -1 : last + 1;
}

// -1: no number has room for them.
int64_t elementsOf(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) return -1;
  }
  return elements;
}

bool isContiguous(const TorchTensor& tensor) {
  if (elementCount(tensor.shape) == 0) return true;
  int64_t stride = 1;
  for (int dim = tensor.shape.size; dim-- > 0;) {
    if (tensor.shape[dim] != 1 && tensor.stride[dim] != stride) return false;
    stride *= tensor.shape[dim];
  }
  return true;
}

void gather(const TorchTensor& tensor, const std::string& storage, std::vector<std::byte>* elements) {
  const int64_t size = sizeOf(tensor.dtype), count = elementCount(tensor.shape);
  int64_t index[kMaxRank] = {};
  for (int64_t i = 0; i < count; ++i) {
    int64_t from = tensor.first;
    for (int dim = 0; dim < tensor.shape.size; ++dim) from += index[dim] * tensor.stride[dim];
    std::memcpy(elements->data() + i * size, storage.data() + from * size, static_cast<size_t>(size));
    for (int dim = tensor.shape.size; dim-- > 0 && ++index[dim] == tensor.shape[dim];) index[dim] = 0;
  }
}

}  // namespace

std::string_view torchName(DType dtype) { return rowOf(dtype).name; }

std::optional<DType> typeOfTorch(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<Shape> shapeOf(const Pickle& pickle, Pickle::Value value) {
  const std::optional<Pickle::Value> sized = pickle.argumentOf(value, "torch Size", 0);
  const Pickle::Value tuple = sized ? *sized : value;
  const std::vector<Pickle::Value>& items = pickle.itemsOf(tuple);
  if (pickle.kindOf(tuple) != Pickle::Kind::kTuple || items.size() > static_cast<size_t>(kMaxRank)) return std::nullopt;
  Shape shape;
  for (Pickle::Value item : items) {
    const std::optional<int64_t> size = pickle.integerOf(item);
    if (!size || *size < 0) return std::nullopt;
    shape.items[shape.size++] = *size;
  }
  return shape;
}

void writeShape(const Shape& shape, PickleWriter* pickle) {
  pickle->name("torch", "Size");
  pickle->openTuple();
  pickle->openTuple();
  for (int64_t size : shape) pickle->integer(size);
  pickle->closeTuple();
  pickle->closeTuple();
  pickle->call();
}

Result<TorchFile> TorchFile::open(const FileDescriptor& file, const std::string& path, int64_t begin, int64_t bytes) {
  Result<ZipReader> archive = ZipReader::open(file, path, begin, bytes);
  if (!archive.ok()) return archive.status();
  std::string order, text;
  if (archive->find(kByteOrder)) HYCRT_RETURN_IF_ERROR(archive->read(kByteOrder, kMaxOrderBytes, &order));
  if (!order.empty() && order != "little") return archive->fail("its bytes are in another order than this machine's");
  HYCRT_RETURN_IF_ERROR(archive->read(kPickleRecord, kMaxPickleBytes, &text));
  Result<Pickle> pickle = Pickle::parse(std::move(text), "'" + path + "'");
  if (!pickle.ok()) return pickle.status();
  return TorchFile(std::move(*archive), std::move(*pickle));
}

// ('storage', torch.FloatStorage, '0', 'cpu', elements)
Status TorchFile::readStorage(Pickle::Value value, TorchTensor* tensor, int64_t* elements) const {
  const std::vector<Pickle::Value>& id = pickle_.itemsOf(value);
  if (pickle_.kindOf(value) != Pickle::Kind::kPersistent || id.empty())
    return archive_.fail("a tensor without storage");
  const std::vector<Pickle::Value>& parts = pickle_.itemsOf(id[0]);
  const auto storage = parts.size() == 5 ? pickle_.textOf(parts[2]) : std::nullopt;
  if (!storage || pickle_.textOf(parts[0]) != "storage") return archive_.fail("a storage that is none");
  const std::string_view type = pickle_.nameOf(parts[1]);
  bool isKnown = false;
  for (const TypeRow& row : kTypes) {
    if (row.storage != type) continue;
    tensor->dtype = row.dtype;
    isKnown = true;
  }
  if (!isKnown) return archive_.fail("a tensor of a " + std::string(type) + ", which no state is of");
  tensor->storage = "data/" + std::string(*storage);
  const ZipReader::Record* const record = archive_.find(tensor->storage);
  if (!record) return archive_.fail("it has no record '" + tensor->storage + "'");
  *elements = record->bytes / sizeOf(tensor->dtype);
  return {};
}

Result<TorchTensor> TorchFile::tensorOf(Pickle::Value value) const {
  // A parameter is a tensor, and whether it is trained.
  if (const auto inside = pickle_.argumentOf(value, "torch._utils _rebuild_parameter", 0)) value = *inside;
  const auto argument = [&](size_t index) {
    return pickle_.argumentOf(value, "torch._utils _rebuild_tensor_v2", index);
  };
  if (!argument(3)) return archive_.fail("what should be a tensor is none");
  TorchTensor tensor;
  int64_t held = 0;
  HYCRT_RETURN_IF_ERROR(readStorage(*argument(0), &tensor, &held));
  const std::optional<int64_t> first = pickle_.integerOf(*argument(1));
  const std::optional<Shape> shape = shapeOf(pickle_, *argument(2)), stride = shapeOf(pickle_, *argument(3));
  if (!first || *first < 0 || !shape || !stride || shape->size != stride->size) {
    return archive_.fail("a tensor's sizes or strides are none");
  }
  tensor.first = *first, tensor.shape = *shape, tensor.stride = *stride;
  const int64_t end = endOf(tensor), elements = elementsOf(tensor.shape);
  // Strides of 0 would make more elements than there are.
  if (end < 0 || end > held || elements < 0 || elements > held) {
    return archive_.fail("a tensor reaches beyond its storage of " + std::to_string(held) + " elements");
  }
  return tensor;
}

Status TorchFile::read(const TorchTensor& tensor, std::vector<std::byte>* elements) const {
  std::string storage;
  HYCRT_RETURN_IF_ERROR(archive_.read(tensor.storage, INT64_MAX, &storage));
  const int64_t size = sizeOf(tensor.dtype);
  elements->resize(static_cast<size_t>(elementCount(tensor.shape) * size));
  if (!isContiguous(tensor)) {
    gather(tensor, storage, elements);
  } else if (!elements->empty()) {
    std::memcpy(elements->data(), storage.data() + tensor.first * size, elements->size());
  }
  return {};
}

Status writeTorchFile(const std::string& pickle, const std::vector<std::byte>& storage, StreamFile* file) {
  ZipWriter archive(file);
  const std::string root = "archive/";
  HYCRT_RETURN_IF_ERROR(archive.add(root + kPickleRecord, pickle));
  HYCRT_RETURN_IF_ERROR(archive.add(root + kByteOrder, "little"));
  if (!storage.empty()) {
    HYCRT_RETURN_IF_ERROR(archive.add(root + "data/0", storage.data(), static_cast<int64_t>(storage.size())));
  }
  HYCRT_RETURN_IF_ERROR(archive.add(root + "version", "3\n"));
  return archive.finish();
}

void writeTensor(DType dtype, const Shape& shape, PickleWriter* pickle) {
  const std::string_view storage = rowOf(dtype).storage;
  pickle->name("torch._utils", "_rebuild_tensor_v2");
  pickle->openTuple();
  pickle->openTuple();
  pickle->text("storage");
  pickle->name("torch", storage.substr(storage.find(' ') + 1));
  pickle->text("0");
  pickle->text("cpu");
  pickle->integer(elementCount(shape));
  pickle->closeTuple();
  pickle->persistent();
  pickle->integer(0);
  pickle->openTuple();
  for (int64_t size : shape) pickle->integer(size);
  pickle->closeTuple();
  Shape stride = shape;
  int64_t next = 1;
  for (int dim = shape.size; dim-- > 0; next *= shape[dim]) stride.items[dim] = next;
  pickle->openTuple();
  for (int64_t size : stride) pickle->integer(size);
  pickle->closeTuple();
  pickle->boolean(false);
  pickle->name("collections", "OrderedDict");
  pickle->openTuple();
  pickle->closeTuple();
  pickle->call();
  pickle->closeTuple();
  pickle->call();
}

}  // namespace hycrt
