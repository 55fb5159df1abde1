// Floating-point numbers to integers, towards zero: what is too large or too small for the integers becomes the
// greatest or the least of them, and NaN becomes 0.
//
// C++ leaves these cases open, and processors differ: x86 gives the least integer for all of them, GPUs saturate but
// for NaN in 64 bits. Casts of programs for CPUs and for GPUs are this one function; the interpreter and the importers,
// which fold casts, agree. Without branches, so that loops over it vectorise (64-bit integers: where the processor
// converts vectors to them at all).
#ifndef HYC_KERNELS_MATH_TRUNCATE_H_
#define HYC_KERNELS_MATH_TRUNCATE_H_

#include <cstdint>
#include <type_traits>

#include "kernels/host_device.h"

namespace hyc::kernels::math {

template <typename Integer, typename Float>
HYC_HOST_DEVICE inline __attribute__((always_inline)) constexpr Integer truncated(Float x) {
  static_assert(std::is_integral_v<Integer> && std::is_floating_point_v<Float>);
  constexpr bool kIsSigned = std::is_signed_v<Integer>;
  constexpr Integer kHalf = static_cast<Integer>(Integer{1} << (8 * sizeof(Integer) - 1 - kIsSigned));
  constexpr Integer kMost = static_cast<Integer>(kHalf - 1 + kHalf);
  constexpr Integer kLeast = kIsSigned ? static_cast<Integer>(-kMost - 1) : Integer{0};
  constexpr Float kBound = static_cast<Float>(kHalf) * 2;  // the least number that is too large, a power of two
  const bool isAbove = x >= kBound, isBelow = x < static_cast<Float>(kLeast);
  const Integer inside = static_cast<Integer>((isAbove | isBelow | (x != x)) ? Float{0} : x);
  return isAbove ? kMost : isBelow ? kLeast : inside;
}

}  // namespace hyc::kernels::math

#endif  // HYC_KERNELS_MATH_TRUNCATE_H_
