// The factor of gradients in plain f64.
#ifndef HYC_KERNELS_GRADIENT_SCALE_REFERENCE_H_
#define HYC_KERNELS_GRADIENT_SCALE_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/description.h"

namespace hyc::kernels::reference {

struct GradientScale {
  double scale = 0, norm = 0;
};

// `count` has been multiplied by the factor on the loss; maxNorm is infinite where nothing is clipped.
inline GradientScale gradientScale(double sumOfSquares, double count, double maxNorm) {
  if (count == 0) return {};
  const double norm = std::sqrt(sumOfSquares) / count;
  return {std::min(1.0, maxNorm / (norm + 1e-6)) / count, norm};
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::gradient_scale {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("gradient_scale",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        const double factor = c.has("loss_scale") ? c.value("loss_scale") / c.real("normalizer") : 1;
                        const double maxNorm =
                            c.flag("max_norm") ? c.real("max_norm") : std::numeric_limits<double>::infinity();
                        const auto result =
                            reference::gradientScale(c.value("squares"), c.value("count") * factor, maxNorm);
                        *c.out<T>("scale") = static_cast<T>(result.scale);
                        *c.out<T>("norm") = static_cast<T>(result.norm);
                      }),
    referenceOfAnyType("increment",
                       [](auto zero, const ExecutedCall &c) {
                         using T = decltype(zero);
                         *c.out<T>("counter") += 1;
                       }),
};

}  // namespace hyc::kernels::executed::gradient_scale

#endif  // HYC_KERNELS_GRADIENT_SCALE_REFERENCE_H_
