// A tensor in a file of the ONNX format's own encoding, as bytes.
#ifndef HYC_TEST_CONFORMANCE_TENSORFILE_H
#define HYC_TEST_CONFORMANCE_TENSORFILE_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hyc::conformance {

/// Numbers of the format.
enum DataType { kF32 = 1, kU8, kI8, kU16, kI16, kI32, kI64, kString, kBool, kF16, kF64, kU32, kU64, kBF16 = 16 };

struct FileTensor {
  int32_t type = 0;
  std::vector<int64_t> shape;
  std::vector<char> bytes; // row-major, little-endian

  int64_t count() const {
    int64_t elements = 1;
    for (int64_t size : shape)
      elements *= size;
    return elements;
  }
};

/// Bytes of one element; 0 for a type that has no fixed size.
int64_t elementBytes(int32_t type);

/// What a file holds, as the model declares it.
enum class FileKind { Tensor, List, Optional };

/// The tensors of a file: one, those of a list, none where an optional value is not there. Nothing where the file holds
/// anything but tensors of numbers.
std::optional<std::vector<FileTensor>> readTensors(const std::string &path, FileKind kind);

/// An empty string where the tensors agree: equal for integers and booleans, within 1e-3 of the expected value plus
/// 1e-7 for floats, as ONNX's own runner compares (NaN equals NaN); else what differs.
std::string compare(const FileTensor &expected, const char *actual);

} // namespace hyc::conformance

#endif // HYC_TEST_CONFORMANCE_TENSORFILE_H
