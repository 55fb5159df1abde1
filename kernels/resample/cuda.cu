// Resampling on GPUs: a thread an element, over the taps of all dimensions.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/narrow_float.h"
#include "kernels/resample/cuda.h"

namespace hyc::kernels::cuda {
namespace {

// The taps of one element of the result along one dimension: elements from `first` on, `stride` apart.
struct Taps {
  int64_t first = 0, count = 1, stride = 0;
  const float *weights = nullptr;  // null: one tap of weight 1

  __device__ float weight(int64_t t) const { return weights ? weights[t] : 1.0f; }
};

template <typename T>
__global__ void resampleKernel(ResampleDesc d, const T *x, const int64_t *firsts, const float *weights, T *y) {
  const int64_t read = d.from[0] * d.from[1] * d.from[2] * d.inner;
  forEach(d.outer * d.to[0] * d.to[1] * d.to[2] * d.inner, [&](int64_t i) {
    const int64_t r = i % d.inner;
    int64_t rest = i / d.inner, at[kResampledDims];
    for (int dim = kResampledDims - 1; dim >= 0; --dim) {
      at[dim] = rest % d.to[dim];
      rest /= d.to[dim];
    }
    Taps taps[kResampledDims];
    const int64_t *table = firsts;
    const float *row = weights;
    int64_t stride = read;
    for (int dim = 0; dim < kResampledDims; ++dim) {
      stride /= d.from[dim];
      if (d.taps[dim] == 0) continue;
      taps[dim] = {table[at[dim]], d.taps[dim], stride, row + at[dim] * d.taps[dim]};
      table += d.to[dim];
      row += d.to[dim] * d.taps[dim];
    }
    float sum = 0;
    for (int64_t t0 = 0; t0 < taps[0].count; ++t0) {
      float plane = 0;
      for (int64_t t1 = 0; t1 < taps[1].count; ++t1) {
        const T *line =
            x + rest * read + r + (taps[0].first + t0) * taps[0].stride + (taps[1].first + t1) * taps[1].stride;
        float along = 0;
        for (int64_t t2 = 0; t2 < taps[2].count; ++t2)
          along += taps[2].weight(t2) * static_cast<float>(line[(taps[2].first + t2) * taps[2].stride]);
        plane += taps[1].weight(t1) * along;
      }
      sum += taps[0].weight(t0) * plane;
    }
    y[i] = T(sum);
  });
}

}  // namespace

template <typename T>
void resample(Stream stream, const ResampleDesc &d, const T *x, const int64_t *firsts, const float *weights, T *y) {
  const int64_t elements = d.outer * d.to[0] * d.to[1] * d.to[2] * d.inner;
  kernel(resampleKernel<T>).launch(stream, gridOver(elements), d, x, firsts, weights, y);
}
template void resample<float>(Stream, const ResampleDesc &, const float *, const int64_t *, const float *, float *);
template void resample<Bf16>(Stream, const ResampleDesc &, const Bf16 *, const int64_t *, const float *, Bf16 *);
template void resample<F16>(Stream, const ResampleDesc &, const F16 *, const int64_t *, const float *, F16 *);

}  // namespace hyc::kernels::cuda
