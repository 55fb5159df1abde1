// Decoding and comparing of tensors.
#include "TensorFile.h"

#include "lib/Import/ONNX/onnx_subset.pb.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

using namespace hyc::conformance;

int64_t hyc::conformance::elementBytes(int32_t type) {
  switch (type) {
  case kU8:
  case kI8:
  case kBool:
    return 1;
  case kU16:
  case kI16:
  case kF16:
  case kBF16:
    return 2;
  case kF32:
  case kI32:
  case kU32:
    return 4;
  case kF64:
  case kI64:
  case kU64:
    return 8;
  default:
    return 0;
  }
}

/// Appends the low bytes of `value`.
template <typename T> static void append(FileTensor &tensor, T value) {
  const char *bytes = reinterpret_cast<const char *>(&value);
  tensor.bytes.insert(tensor.bytes.end(), bytes, bytes + elementBytes(tensor.type));
}

static std::optional<FileTensor> decode(const hyc::onnxfile::Tensor &stored) {
  if (elementBytes(stored.data_type()) == 0)
    return std::nullopt;
  FileTensor tensor;
  tensor.type = stored.data_type();
  tensor.shape.assign(stored.dims().begin(), stored.dims().end());
  if (stored.has_raw_data())
    tensor.bytes.assign(stored.raw_data().begin(), stored.raw_data().end());
  for (float value : stored.float_data())
    append(tensor, value);
  for (int32_t value : stored.int32_data())
    append(tensor, value);
  for (int64_t value : stored.int64_data())
    append(tensor, value);
  for (double value : stored.double_data())
    append(tensor, value);
  for (uint64_t value : stored.uint64_data())
    append(tensor, value);
  if (static_cast<int64_t>(tensor.bytes.size()) != tensor.count() * elementBytes(tensor.type))
    return std::nullopt;
  return tensor;
}

std::optional<std::vector<FileTensor>> hyc::conformance::readTensors(const std::string &path, FileKind kind) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  hyc::onnxfile::Tensor single;
  hyc::onnxfile::TensorList list;
  hyc::onnxfile::Maybe maybe;
  bool isRead = kind == FileKind::Tensor ? single.ParseFromString(text.str())
                : kind == FileKind::List ? list.ParseFromString(text.str())
                                         : maybe.ParseFromString(text.str());
  if (!file || !isRead)
    return std::nullopt;
  std::vector<hyc::onnxfile::Tensor> stored;
  if (kind == FileKind::Optional && maybe.element_kind() == 3)
    list = maybe.list();
  else if (kind != FileKind::List && !(kind == FileKind::Optional && maybe.element_kind() == 0))
    stored.push_back(kind == FileKind::Tensor ? single : maybe.tensor());
  stored.insert(stored.end(), list.tensor().begin(), list.tensor().end());
  std::vector<FileTensor> tensors;
  for (const hyc::onnxfile::Tensor &each : stored) {
    std::optional<FileTensor> tensor = decode(each);
    if (!tensor)
      return std::nullopt;
    tensors.push_back(*tensor);
  }
  return tensors;
}

template <typename T> static T at(const char *bytes, int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

static double realAt(int32_t type, const char *bytes, int64_t index) {
  if (type == kF32)
    return at<float>(bytes, index);
  if (type == kF64)
    return at<double>(bytes, index);
  const uint16_t bits = at<uint16_t>(bytes, index);
  if (type == kBF16) {
    uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? std::nan("") : INFINITY)
                 : exponent == 0 ? std::ldexp(fraction, -24)
                                 : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -value : value;
}

static bool isReal(int32_t type) { return type == kF32 || type == kF64 || type == kF16 || type == kBF16; }

std::string hyc::conformance::compare(const FileTensor &expected, const char *actual) {
  int64_t bytes = elementBytes(expected.type);
  for (int64_t i = 0; i < expected.count(); ++i) {
    const char *want = expected.bytes.data() + i * bytes, *have = actual + i * bytes;
    if (std::memcmp(want, have, bytes) == 0)
      continue;
    if (!isReal(expected.type))
      return "element " + std::to_string(i) + " of " + std::to_string(expected.count()) + " differs";
    double x = realAt(expected.type, want, 0), y = realAt(expected.type, have, 0);
    if ((std::isnan(x) && std::isnan(y)) || x == y || std::fabs(x - y) <= 1e-7 + 1e-3 * std::fabs(x))
      continue;
    return "element " + std::to_string(i) + " is " + std::to_string(y) + ", expected " + std::to_string(x);
  }
  return "";
}
