// Scalar types of torch.export by their numbers, and their sizes.
#include "Program.h"

using namespace hyc::torchexport;

int64_t hyc::torchexport::byteCount(ScalarType type) {
  switch (type) {
  case ScalarType::U8:
  case ScalarType::I8:
  case ScalarType::Bool:
    return 1;
  case ScalarType::I16:
  case ScalarType::F16:
  case ScalarType::BF16:
    return 2;
  case ScalarType::I32:
  case ScalarType::F32:
    return 4;
  case ScalarType::I64:
  case ScalarType::F64:
  case ScalarType::C64:
    return 8;
  }
  return 0;
}

std::optional<ScalarType> hyc::torchexport::toScalarType(int64_t number) {
  if ((number >= 1 && number <= 8) || number == 10 || number == 12 || number == 13)
    return static_cast<ScalarType>(number);
  return std::nullopt;
}
