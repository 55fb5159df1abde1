// Delayed scaling as the recipe writes it down, in f64.
#ifndef HYC_KERNELS_FP8_SCALE_REFERENCE_H_
#define HYC_KERNELS_FP8_SCALE_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/description.h"

namespace hyc::kernels::reference {

// The next scale; `history` rolls by one.
inline double nextFp8Scale(double scale, double amax, double largest, std::vector<double> &history) {
  std::rotate(history.begin(), history.end() - 1, history.end());
  history[0] = std::isfinite(amax) ? amax : 0;
  const double greatest = *std::max_element(history.begin(), history.end());
  if (!std::isfinite(amax) || greatest == 0) return scale;
  // The greatest power of two that keeps the greatest magnitude within range: found, not computed by a logarithm.
  int exponent = 63;
  while (exponent > -63 && std::ldexp(greatest, exponent) > largest) --exponent;
  return std::ldexp(1.0, exponent);
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::fp8_scale {

// accumulate_max is a statement.
inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("update_fp8_scale",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        T *kept = c.out<T>("history");
                        std::vector<double> history(kept, kept + c.count({"history"}));
                        const double scale =
                            reference::nextFp8Scale(*c.out<T>("scale"), c.value("amax"), c.real("largest"), history);
                        *c.out<T>("scale") = static_cast<T>(scale);
                        *c.out<T>("inverse") = static_cast<T>(1 / scale);
                        for (double amax : history) *kept++ = static_cast<T>(amax);
                      }),
};

}  // namespace hyc::kernels::executed::fp8_scale

#endif  // HYC_KERNELS_FP8_SCALE_REFERENCE_H_
