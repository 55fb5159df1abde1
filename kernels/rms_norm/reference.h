// Normalisation by the root mean square in plain loops, for any scalar type. Null pointers mean what they mean in op.h.
#ifndef HYC_KERNELS_RMS_NORM_REFERENCE_H_
#define HYC_KERNELS_RMS_NORM_REFERENCE_H_

#include <cmath>

#include "kernels/description.h"
#include "kernels/rms_norm/op.h"

namespace hyc::kernels::reference {

template <typename T>
void rmsNormForward(const RmsNormDesc &d, const T *x, const T *scale, T *y, T *rstd) {
  for (int64_t row = 0; row < d.rows; ++row) {
    const T *xRow = x + row * d.cols;
    T squares = 0;
    for (int64_t c = 0; c < d.cols; ++c) squares += xRow[c] * xRow[c];
    const T rowRstd = T(1) / std::sqrt(squares / T(d.cols) + T(d.epsilon));
    for (int64_t c = 0; c < d.cols; ++c) y[row * d.cols + c] = xRow[c] * rowRstd * scale[c];
    rstd[row] = rowRstd;
  }
}

template <typename T>
void rmsNormBackward(const RmsNormDesc &d, const T *x, const T *scale, const T *rstd, const T *dy, T *dx, T *dscale,
                     WriteMode mode) {
  for (int64_t c = 0; c < d.cols && dscale && mode == WriteMode::kOverwrite; ++c) dscale[c] = 0;
  for (int64_t row = 0; row < d.rows; ++row) {
    const int64_t base = row * d.cols;
    T sumGn = 0;
    for (int64_t c = 0; c < d.cols; ++c) {
      const T normalised = x[base + c] * rstd[row];
      sumGn += dy[base + c] * scale[c] * normalised;
      if (dscale) dscale[c] += dy[base + c] * normalised;
    }
    for (int64_t c = 0; c < d.cols && dx; ++c)
      dx[base + c] = rstd[row] * (dy[base + c] * scale[c] - x[base + c] * rstd[row] * (sumGn / T(d.cols)));
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::rms_norm {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("rms_norm",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::rmsNormForward(c.desc<RmsNormDesc>(), c.in<T>("x"), c.in<T>("scale"), c.out<T>("y"),
                                                  c.out<T>("rstd"));
                      }),
    referenceOfFloats("rms_norm_grad",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::rmsNormBackward(c.desc<RmsNormDesc>(), c.in<T>("x"), c.in<T>("scale"),
                                                   c.in<T>("rstd"), c.in<T>("dy"), c.out<T>("dx"), c.out<T>("dscale"),
                                                   WriteMode::kOverwrite);
                      }),
};

}  // namespace hyc::kernels::executed::rms_norm

#endif  // HYC_KERNELS_RMS_NORM_REFERENCE_H_
