// Layer normalisation in plain loops, for any scalar type. Null pointers mean what they mean in op.h.
#ifndef HYC_KERNELS_LAYER_NORM_REFERENCE_H_
#define HYC_KERNELS_LAYER_NORM_REFERENCE_H_

#include <cmath>

#include "kernels/description.h"
#include "kernels/layer_norm/op.h"

namespace hyc::kernels::reference {

template <typename T>
void layerNormForward(const LayerNormDesc &d, const T *x, const T *scale, const T *bias, T *y, T *mean, T *rstd) {
  for (int64_t row = 0; row < d.rows; ++row) {
    const T *xRow = x + row * d.cols;
    T sum = 0, squares = 0;
    for (int64_t c = 0; c < d.cols; ++c) sum += xRow[c];
    const T rowMean = sum / T(d.cols);
    for (int64_t c = 0; c < d.cols; ++c) squares += (xRow[c] - rowMean) * (xRow[c] - rowMean);
    const T rowRstd = T(1) / std::sqrt(squares / T(d.cols) + T(d.epsilon));
    for (int64_t c = 0; c < d.cols; ++c)
      y[row * d.cols + c] = (xRow[c] - rowMean) * rowRstd * (scale ? scale[c] : T(1)) + (bias ? bias[c] : T(0));
    mean[row] = rowMean;
    rstd[row] = rowRstd;
  }
}

template <typename T>
void layerNormBackward(const LayerNormDesc &d, const T *x, const T *scale, const T *mean, const T *rstd, const T *dy,
                       T *dx, T *dscale, T *dbias, WriteMode mode) {
  for (int64_t c = 0; c < d.cols && mode == WriteMode::kOverwrite; ++c) {
    if (dscale) dscale[c] = 0;
    if (dbias) dbias[c] = 0;
  }
  for (int64_t row = 0; row < d.rows; ++row) {
    const int64_t base = row * d.cols;
    T sumG = 0, sumGx = 0;
    for (int64_t c = 0; c < d.cols; ++c) {
      const T normalised = (x[base + c] - mean[row]) * rstd[row];
      const T g = dy[base + c] * (scale ? scale[c] : T(1));
      sumG += g;
      sumGx += g * normalised;
      if (dscale) dscale[c] += dy[base + c] * normalised;
      if (dbias) dbias[c] += dy[base + c];
    }
    for (int64_t c = 0; c < d.cols && dx; ++c) {
      const T normalised = (x[base + c] - mean[row]) * rstd[row];
      const T g = dy[base + c] * (scale ? scale[c] : T(1));
      dx[base + c] = rstd[row] * (g - sumG / T(d.cols) - normalised * (sumGx / T(d.cols)));
    }
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::layer_norm {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("layer_norm",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::layerNormForward(c.desc<LayerNormDesc>(), c.in<T>("x"), c.in<T>("scale"),
                                                    c.in<T>("bias"), c.out<T>("y"), c.out<T>("mean"), c.out<T>("rstd"));
                      }),
    referenceOfFloats("layer_norm_grad",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::layerNormBackward(c.desc<LayerNormDesc>(), c.in<T>("x"), c.in<T>("scale"),
                                                     c.in<T>("mean"), c.in<T>("rstd"), c.in<T>("dy"), c.out<T>("dx"),
                                                     c.out<T>("dscale"), c.out<T>("dbias"), WriteMode::kOverwrite);
                      }),
};

}  // namespace hyc::kernels::executed::layer_norm

#endif  // HYC_KERNELS_LAYER_NORM_REFERENCE_H_
