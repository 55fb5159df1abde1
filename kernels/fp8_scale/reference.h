// Delayed scaling as the recipe writes it down, in f64.
#ifndef HYC_KERNELS_FP8_SCALE_REFERENCE_H_
#define HYC_KERNELS_FP8_SCALE_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <vector>

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

#endif  // HYC_KERNELS_FP8_SCALE_REFERENCE_H_
