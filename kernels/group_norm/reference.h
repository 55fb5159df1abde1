// Normalisation of groups of channels in plain loops, for any scalar type.
#ifndef HYC_KERNELS_GROUP_NORM_REFERENCE_H_
#define HYC_KERNELS_GROUP_NORM_REFERENCE_H_

#include <cmath>

#include "kernels/description.h"
#include "kernels/group_norm/op.h"

namespace hyc::kernels::reference {

template <typename T>
void groupNormForward(const GroupNormDesc &d, const T *x, const T *scale, const T *bias, T *y, T *mean, T *rstd) {
  const int64_t size = d.channels * d.positions;
  for (int64_t row = 0; row < d.samples * d.groups; ++row, x += size, y += size) {
    T sum = 0, squares = 0;
    for (int64_t i = 0; i < size; ++i) sum += x[i];
    mean[row] = sum / T(size);
    for (int64_t i = 0; i < size; ++i) squares += (x[i] - mean[row]) * (x[i] - mean[row]);
    rstd[row] = T(1) / std::sqrt(squares / T(size) + T(d.epsilon));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t c = row % d.groups * d.channels + i / d.positions;
      y[i] = (x[i] - mean[row]) * rstd[row] * scale[c] + bias[c];
    }
  }
}

template <typename T>
void groupNormBackward(const GroupNormDesc &d, const T *x, const T *scale, const T *mean, const T *rstd, const T *dy,
                       T *dx, T *dscale, T *dbias, WriteMode mode) {
  const int64_t size = d.channels * d.positions;
  for (int64_t c = 0; c < d.groups * d.channels && mode == WriteMode::kOverwrite; ++c) dscale[c] = dbias[c] = 0;
  for (int64_t row = 0; row < d.samples * d.groups; ++row, x += size, dy += size, dx += size) {
    T sumG = 0, sumGx = 0;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t c = row % d.groups * d.channels + i / d.positions;
      const T normalised = (x[i] - mean[row]) * rstd[row];
      sumG += dy[i] * scale[c];
      sumGx += dy[i] * scale[c] * normalised;
      dscale[c] += dy[i] * normalised;
      dbias[c] += dy[i];
    }
    for (int64_t i = 0; i < size; ++i) {
      const int64_t c = row % d.groups * d.channels + i / d.positions;
      const T normalised = (x[i] - mean[row]) * rstd[row];
      dx[i] = rstd[row] * (dy[i] * scale[c] - sumG / T(size) - normalised * (sumGx / T(size)));
    }
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::group_norm {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("group_norm",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::groupNormForward(c.desc<GroupNormDesc>(), c.in<T>("x"), c.in<T>("scale"),
                                                    c.in<T>("bias"), c.out<T>("y"), c.out<T>("mean"), c.out<T>("rstd"));
                      }),
    referenceOfFloats("group_norm_grad",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::groupNormBackward(c.desc<GroupNormDesc>(), c.in<T>("x"), c.in<T>("scale"),
                                                     c.in<T>("mean"), c.in<T>("rstd"), c.in<T>("dy"), c.out<T>("dx"),
                                                     c.out<T>("dscale"), c.out<T>("dbias"), WriteMode::kOverwrite);
                      }),
};

}  // namespace hyc::kernels::executed::group_norm

#endif  // HYC_KERNELS_GROUP_NORM_REFERENCE_H_
