// Values of one floating-point type as another's, as files and states have them.
#ifndef HYCRT_SRC_IO_FLOAT_CONVERT_H_
#define HYCRT_SRC_IO_FLOAT_CONVERT_H_

#include <cstddef>
#include <cstdint>

#include "hycrt/types.h"

namespace hycrt {

// From f32, f64, f16 or bf16 to f32, f16 or bf16, rounded to nearest.
void convertFloats(const std::byte* from, DType fromType, std::byte* to, DType toType, int64_t count);

constexpr bool canConvert(DType from, DType to) {
  const auto isFloat = [](DType type) { return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16; };
  return isFloat(to) && (isFloat(from) || from == DType::kF64);
}

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_FLOAT_CONVERT_H_
