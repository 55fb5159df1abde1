// What bodies of generated kernels call, on CPUs and GPUs.
#ifndef HYC_LIB_TARGET_CPP_KERNELFUNCTIONS_H
#define HYC_LIB_TARGET_CPP_KERNELFUNCTIONS_H

#include "llvm/ADT/StringRef.h"

namespace hyc::cpp {

inline constexpr llvm::StringLiteral kKernelFunctions = R"(// x · Φ(x), and its derivative.
inline float gelu(float x) { return 0.5f * x * (1.0f + math::erf(x * 0.707106781f)); }
inline float geluGrad(float dy, float x) {
  const float cumulative = 0.5f * (1.0f + math::erf(x * 0.707106781f));
  const float density = 0.398942280f * math::exp(-0.5f * x * x);
  return dy * (cumulative + x * density);
}
// 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))), and its derivative.
inline float geluTanh(float x) {
  return 0.5f * x * (1.0f + math::tanh(0.797884561f * (x + 0.044715f * x * x * x)));
}
inline float geluTanhGrad(float dy, float x) {
  const float t = math::tanh(0.797884561f * (x + 0.044715f * x * x * x));
  const float slope = 0.797884561f * (1.0f + 0.134145f * x * x);
  return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);
}
template <typename T>
inline T relu(T x) {
  return x < 0 ? T(0) : x;
}
// NaN if either is.
template <typename T>
inline T maximum(T x, T y) {
  return x > y || x != x ? x : y;
}
template <typename T>
inline T minimum(T x, T y) {
  return x < y || x != x ? x : y;
}
template <typename T>
inline T absolute(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
  else return x < 0 ? T(-x) : x;
}
// Of integers: y is not negative; what does not fit wraps around.
template <typename T>
inline T power(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::pow(x, y);
  uint64_t result = 1, base = static_cast<uint64_t>(x);
  for (uint64_t left = static_cast<uint64_t>(y); left > 0; left >>= 1, base *= base) result *= (left & 1) ? base : 1;
  return static_cast<T>(result);
}
// With the sign of x; of integers y is neither 0 nor, where x is the lowest, -1.
template <typename T>
inline T remainder(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(x, y);
  else return static_cast<T>(x % y);
}
// NaN stays NaN.
template <typename T>
inline T sign(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x;
}
// log(1 + e^x)
template <typename T>
inline T softplus(T x) {
  return (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::fabs(x)));
}
template <typename T>
inline void write(T& out, T value, WriteMode mode) {
  out = mode == WriteMode::kAccumulate ? T(out + value) : value;  // of 16 bits: added in f32, rounded once
}

}  // namespace

)";

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_KERNELFUNCTIONS_H
