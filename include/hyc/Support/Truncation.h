// Real numbers to integers, as casts of models mean it, where C++ leaves it open.
#ifndef HYC_SUPPORT_TRUNCATION_H
#define HYC_SUPPORT_TRUNCATION_H

#include <cmath>
#include <cstdint>

namespace hyc {

/// `value` towards zero; the greatest or the least integer of so many bits where it lies beyond, and 0 for NaN. Emitted
/// programs do the same (kernels/math/truncate.h). Unsigned ones of 64 bits are given by their bits.
inline int64_t truncated(double value, unsigned width = 64, bool isUnsigned = false) {
  double bound = std::ldexp(1.0, static_cast<int>(width) - !isUnsigned); // the least number that is too large
  uint64_t most = ~uint64_t{0} >> (64 - width + !isUnsigned);
  if (std::isnan(value))
    return 0;
  if (value >= bound)
    return static_cast<int64_t>(most);
  if (isUnsigned)
    return value < 0 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(value));
  return value < -bound ? -static_cast<int64_t>(most) - 1 : static_cast<int64_t>(value);
}

} // namespace hyc

#endif // HYC_SUPPORT_TRUNCATION_H
