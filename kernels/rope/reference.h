// Rotary positions in plain loops, for any scalar type.
#ifndef HYC_KERNELS_ROPE_REFERENCE_H_
#define HYC_KERNELS_ROPE_REFERENCE_H_

#include <cmath>

#include "kernels/description.h"
#include "kernels/rope/op.h"

namespace hyc::kernels::reference {

template <typename T>
void rope(const RopeDesc &d, const T *x, const T *cos, const T *sin, T *y) {
  for (int64_t b = 0; b < d.batch; ++b)
    for (int64_t s = 0; s < d.length; ++s)
      for (int64_t h = 0; h < d.heads; ++h) {
        const int64_t head = ((b * d.length + s) * d.heads + h) * d.headDim;
        const int64_t row = (d.tablePerSample ? b * d.length + s : s) * d.pairs;
        for (int64_t i = 0; i < d.headDim; ++i) {
          if (i >= 2 * d.pairs) {
            y[head + i] = x[head + i];
          } else if (i < d.pairs) {
            const T c = cos[row + i], n = d.inverse ? -sin[row + i] : sin[row + i];
            const T first = x[head + i], second = x[head + d.pairs + i];
            y[head + i] = first * c - second * n;
            y[head + d.pairs + i] = second * c + first * n;
          }
        }
      }
}

// In f64 the angle is not rounded to f32.
template <typename T>
void rotaryTable(const RotaryTableDesc &d, const float *frequencies, T *cos, T *sin) {
  for (int64_t p = 0; p < d.positions; ++p)
    for (int64_t i = 0; i < d.pairs; ++i) {
      const double angle = T(p) * T(frequencies[i]);
      cos[p * d.pairs + i] = T(std::cos(angle)) * T(d.factor);
      sin[p * d.pairs + i] = T(std::sin(angle)) * T(d.factor);
    }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::rope {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("rope",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::rope(c.desc<RopeDesc>(), c.in<T>("x"), c.in<T>("cos"), c.in<T>("sin"),
                                        c.out<T>("y"));
                      }),
    referenceOfFloats("rotary_table",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::rotaryTable(c.desc<RotaryTableDesc>(), c.reals("frequencies").data(),
                                               c.out<T>("cos"), c.out<T>("sin"));
                      }),
};

}  // namespace hyc::kernels::executed::rope

#endif  // HYC_KERNELS_ROPE_REFERENCE_H_
