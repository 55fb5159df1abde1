// The three convolutions in plain loops, for any scalar type: every term of the form is visited once.
#ifndef HYC_KERNELS_CONVOLUTION_REFERENCE_H_
#define HYC_KERNELS_CONVOLUTION_REFERENCE_H_

#include "kernels/convolution/op.h"
#include "kernels/description.h"

namespace hyc::kernels::reference {

// Calls term(position in x, in w, in y) for each product of the form.
template <typename Term>
void forEachConvolutionTerm(const ConvolutionDesc &d, Term term) {
  const int64_t c = d.groupChannels(), o = d.groupOutputs();
  for (int64_t n = 0; n < d.batch; ++n)
    for (int64_t out = 0; out < d.outputs; ++out)
      for (int64_t p = 0; p < d.places(); ++p)
        for (int64_t in = 0; in < c; ++in)
          for (int64_t k = 0; k < d.kernels(); ++k) {
            const int64_t place[3] = {p / (d.positions[1] * d.positions[2]), p / d.positions[2] % d.positions[1],
                                      p % d.positions[2]};
            const int64_t tap[3] = {k / (d.kernel[1] * d.kernel[2]), k / d.kernel[2] % d.kernel[1], k % d.kernel[2]};
            int64_t at = n * d.channels + out / o * c + in;
            bool inside = true;
            for (int i = 0; i < 3; ++i) {
              const int64_t s = place[i] * d.stride[i] + tap[i] * d.dilation[i] - d.low[i];
              inside = inside && s >= 0 && s < d.size[i];
              at = at * d.size[i] + s;
            }
            if (inside) term(at, (out * c + in) * d.kernels() + k, (n * d.outputs + out) * d.places() + p);
          }
}

template <typename T>
void convolution(const ConvolutionDesc &d, const T *x, const T *w, T *y) {
  for (int64_t i = 0; i < d.batch * d.outputs * d.places(); ++i) y[i] = 0;
  forEachConvolutionTerm(d, [&](int64_t a, int64_t b, int64_t c) { y[c] += x[a] * w[b]; });
}

template <typename T>
void convolutionTranspose(const ConvolutionDesc &d, const T *y, const T *w, T *x) {
  for (int64_t i = 0; i < d.batch * d.channels * d.sizes(); ++i) x[i] = 0;
  forEachConvolutionTerm(d, [&](int64_t a, int64_t b, int64_t c) { x[a] += y[c] * w[b]; });
}

template <typename T>
void convolutionWeight(const ConvolutionDesc &d, const T *x, const T *y, T *w, WriteMode mode) {
  for (int64_t i = 0; i < d.outputs * d.groupChannels() * d.kernels() && mode == WriteMode::kOverwrite; ++i) w[i] = 0;
  forEachConvolutionTerm(d, [&](int64_t a, int64_t b, int64_t c) { w[b] += x[a] * y[c]; });
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::convolution {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("convolution",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::convolution(c.desc<ConvolutionDesc>(), c.in<T>("x"), c.in<T>("w"), c.out<T>("y"));
                      }),
    referenceOfFloats("convolution_transpose",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::convolutionTranspose(c.desc<ConvolutionDesc>(), c.in<T>("y"), c.in<T>("w"),
                                                        c.out<T>("x"));
                      }),
    referenceOfFloats("convolution_weight",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::convolutionWeight(c.desc<ConvolutionDesc>(), c.in<T>("x"), c.in<T>("y"),
                                                     c.out<T>("w"), WriteMode::kOverwrite);
                      }),
};

}  // namespace hyc::kernels::executed::convolution

#endif  // HYC_KERNELS_CONVOLUTION_REFERENCE_H_
