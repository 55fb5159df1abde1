// The two helpers of status.h and types.h that need more than a header.
#include "hycrt/status.h"

#include <cerrno>
#include <system_error>

#include "base/limits.h"
#include "hycrt/types.h"

namespace hycrt {

Status errnoError(const std::string& what, int error) {
  const std::string text = what + ": " + std::generic_category().message(error);
  if (error == EMFILE || error == ENFILE) return unavailableError(text + descriptorLimit());
  return ioError(text);
}

const char* nameOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kU8:
      return "u8";
  }
  return "unknown type";
}

}  // namespace hycrt
