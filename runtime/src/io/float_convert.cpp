// Floating-point types into each other, by way of f32.
#include "io/float_convert.h"

#include <algorithm>
#include <cstring>

#include "kernels/narrow_float.h"

namespace hycrt {
namespace {

using hyc::kernels::Bf16;
using hyc::kernels::F16;

template <typename T>
void convertElements(const std::byte* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * int64_t{sizeof(T)}, sizeof value);
    to[i] = static_cast<float>(value);
  }
}

void convertToF32(const std::byte* from, DType fromType, float* to, int64_t count) {
  if (fromType == DType::kBF16) {
    convertElements<Bf16>(from, to, count);
  } else if (fromType == DType::kF16) {
    convertElements<F16>(from, to, count);
  } else if (fromType == DType::kF64) {
    convertElements<double>(from, to, count);
  } else {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  }
}

template <typename T>
void roundElements(const float* from, std::byte* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = T(from[i]);
}

}  // namespace

// By way of f32, a little at a time.
void convertFloats(const std::byte* from, DType fromType, std::byte* to, DType toType, int64_t count) {
  if (toType == DType::kF32) return convertToF32(from, fromType, reinterpret_cast<float*>(to), count);
  constexpr int64_t kWide = 4096;
  float wide[kWide];
  for (int64_t done = 0; done < count; done += kWide) {
    const int64_t some = std::min(kWide, count - done);
    convertToF32(from + done * sizeOf(fromType), fromType, wide, some);
    std::byte* place = to + done * sizeOf(toType);
    toType == DType::kBF16 ? roundElements<Bf16>(wide, place, some) : roundElements<F16>(wide, place, some);
  }
}

}  // namespace hycrt
