// Pooling by maximum in plain loops, for any scalar type.
#ifndef HYC_KERNELS_POOLING_REFERENCE_H_
#define HYC_KERNELS_POOLING_REFERENCE_H_

#include <limits>

#include "kernels/description.h"
#include "kernels/pooling/op.h"

namespace hyc::kernels::reference {

template <typename T>
void maxPool(const PoolingDesc &d, const T *x, T *y, int64_t *indices) {
  using Limits = std::numeric_limits<T>;
  const int64_t taps = d.window[0] * d.window[1] * d.window[2];
  for (int64_t i = 0; i < d.planes * d.places(); ++i) {
    const int64_t plane = i / d.places(), p = i % d.places();
    const int64_t place[3] = {p / (d.positions[1] * d.positions[2]), p / d.positions[2] % d.positions[1],
                              p % d.positions[2]};
    y[i] = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    indices[i] = -1;
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t tap[3] = {k / (d.window[1] * d.window[2]), k / d.window[2] % d.window[1], k % d.window[2]};
      int64_t at = 0;
      bool inside = true;
      for (int j = 0; j < 3; ++j) {
        const int64_t s = place[j] * d.stride[j] + tap[j] * d.dilation[j] - d.low[j];
        inside = inside && s >= 0 && s < d.size[j];
        at = at * d.size[j] + s;
      }
      if (!inside) continue;
      const T value = x[plane * d.sizes() + at];
      const bool isNumber = y[i] == y[i];
      if (indices[i] < 0 || (isNumber && (value > y[i] || value != value))) y[i] = value, indices[i] = at;
    }
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::pooling {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("max_pool",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::maxPool(c.desc<PoolingDesc>(), c.in<T>("x"), c.out<T>("y"),
                                           c.out<int64_t>("indices"));
                      }),
};

}  // namespace hyc::kernels::executed::pooling

#endif  // HYC_KERNELS_POOLING_REFERENCE_H_
