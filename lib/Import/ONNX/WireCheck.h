// Walks the encoded bytes of an ONNX model before anything decodes them: every length is checked against what encloses
// it, nesting is bounded, and the bytes of weights are only located, never copied.
#ifndef HYC_IMPORT_ONNX_WIRECHECK_H
#define HYC_IMPORT_ONNX_WIRECHECK_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace hyc::onnx {

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// One initializer of the main graph.
struct InitializerBytes {
  llvm::SmallVector<ByteRange, 4> pieces; // all of its fields but the row-major values
  std::optional<ByteRange> values;        // raw_data, or packed float_data or double_data: little-endian, row-major
  unsigned valuesField = 0;               // the field they are: 9, 4 or 10
};

/// Where the parts of a model lie in its file.
struct ModelBytes {
  llvm::SmallVector<ByteRange, 8> modelPieces; // all fields of the model but its graph
  llvm::SmallVector<ByteRange, 0> graphPieces; // all fields of the graph but its initializers
  llvm::SmallVector<InitializerBytes, 0> initializers;
  bool hasGraph = false;
};

/// The deepest nesting of messages that is accepted; a graph inside an attribute costs three levels.
constexpr unsigned kMaxDepth = 64;

/// Locates the parts of `bytes`, or says in `error` what is wrong and at which byte.
std::optional<ModelBytes> locateModel(llvm::StringRef bytes, std::string &error);

} // namespace hyc::onnx

#endif // HYC_IMPORT_ONNX_WIRECHECK_H
