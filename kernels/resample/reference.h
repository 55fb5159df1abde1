// Resampling in plain loops, for any scalar type: all dimensions at once.
#ifndef HYC_KERNELS_RESAMPLE_REFERENCE_H_
#define HYC_KERNELS_RESAMPLE_REFERENCE_H_

#include "kernels/description.h"
#include "kernels/resample/op.h"

namespace hyc::kernels::reference {

// The sum over the taps of dimension `dim` and those behind it, of the result element at[dim…].
template <typename T>
T resampled(const ResampleDesc &d, int dim, const int64_t *at, const T *x, const int64_t *firsts, const T *weights) {
  if (dim == kResampledDims) return *x;
  int64_t stride = d.inner;
  for (int behind = dim + 1; behind < kResampledDims; ++behind) stride *= d.from[behind];
  const int64_t taps = d.taps[dim], rows = taps ? d.to[dim] : 0;
  if (taps == 0) return resampled(d, dim + 1, at, x, firsts, weights);
  T sum = 0;
  for (int64_t t = 0; t < taps; ++t)
    sum += weights[at[dim] * taps + t] *
           resampled(d, dim + 1, at, x + (firsts[at[dim]] + t) * stride, firsts + rows, weights + rows * taps);
  return sum;
}

template <typename T>
void resample(const ResampleDesc &d, const T *x, const int64_t *firsts, const T *weights, T *y) {
  const int64_t read = d.from[0] * d.from[1] * d.from[2] * d.inner;
  int64_t at[kResampledDims] = {};
  for (int64_t o = 0; o < d.outer; ++o)
    for (at[0] = 0; at[0] < d.to[0]; ++at[0])
      for (at[1] = 0; at[1] < d.to[1]; ++at[1])
        for (at[2] = 0; at[2] < d.to[2]; ++at[2])
          for (int64_t r = 0; r < d.inner; ++r) *y++ = resampled(d, 0, at, x + o * read + r, firsts, weights);
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::resample {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("resample",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::resample(c.desc<ResampleDesc>(), c.in<T>("x"), c.in<int64_t>("firsts"),
                                            c.in<T>("weights"), c.out<T>("y"));
                      }),
};

}  // namespace hyc::kernels::executed::resample

#endif  // HYC_KERNELS_RESAMPLE_REFERENCE_H_
