// Running sums on GPUs: a thread a line, since terms are added one by one. What lies beside the dimension is what runs
// side by side.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/cumsum/cuda.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kLookAhead = 8;  // elements that are under way at once

template <typename T>
__global__ void cumSumKernel(CumSumDesc d, const T *x, T *y) {
  forEach(d.outer * d.inner, [&](int64_t line) {
    const int64_t base = line / d.inner * d.size * d.inner + line % d.inner;
    const int64_t first = d.reverse ? base + (d.size - 1) * d.inner : base, step = d.reverse ? -d.inner : d.inner;
    T sum = 0;
    for (int64_t begin = 0; begin < d.size; begin += kLookAhead) {
      const int64_t left = d.size - begin;
      T terms[kLookAhead];
      for (int64_t i = 0; i < kLookAhead; ++i) terms[i] = i < left ? x[first + (begin + i) * step] : T(0);
      for (int64_t i = 0; i < kLookAhead && i < left; ++i) {
        const T before = sum;
        sum = static_cast<T>(sum + terms[i]);
        y[first + (begin + i) * step] = d.exclusive ? before : sum;
      }
    }
  });
}

}  // namespace

template <typename T>
void cumSum(Stream stream, const CumSumDesc &d, const T *x, T *y) {
  kernel(cumSumKernel<T>).launch(stream, gridOver(d.outer * d.inner, 64), d, x, y);
}
template void cumSum<float>(Stream, const CumSumDesc &, const float *, float *);
template void cumSum<double>(Stream, const CumSumDesc &, const double *, double *);
template void cumSum<int64_t>(Stream, const CumSumDesc &, const int64_t *, int64_t *);
template void cumSum<int32_t>(Stream, const CumSumDesc &, const int32_t *, int32_t *);

}  // namespace hyc::kernels::cuda
