// Files beside a model that hold the values of its tensors. A model is foreign input: what it names must be a plain
// file below the model's own folder, reached without a link of any kind, and nothing else is ever opened.
#ifndef HYC_IMPORT_ONNX_EXTERNALDATA_H
#define HYC_IMPORT_ONNX_EXTERNALDATA_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace hyc::onnx {

struct ExternalFile {
  bool absent = false;
  uint64_t size = 0;
  int descriptor = -1; // the caller's to close
};

/// Opens `location`, which must be relative to `folder` and stay in it. On refusal returns nothing and says why in
/// `error`; a file that does not exist is no error.
std::optional<ExternalFile> openExternalFile(llvm::StringRef folder, llvm::StringRef location, std::string &error);

/// A count of bytes in plain decimal digits that fits 63 bits.
std::optional<uint64_t> parseByteCount(llvm::StringRef text);

} // namespace hyc::onnx

#endif // HYC_IMPORT_ONNX_EXTERNALDATA_H
