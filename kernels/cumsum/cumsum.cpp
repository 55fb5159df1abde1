// Running sums on CPUs. The elements beside the dimension are independent: they are the inner loop, and the threads'.
#include "kernels/cumsum/op.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {

template <typename T>
void cumSum(const CumSumDesc &d, const T *x, T *y) {
  constexpr int64_t kWidth = 64, kWorthATeam = 32768;
  const int64_t pieces = (d.inner + kWidth - 1) / kWidth;
  runTeam(d.outer * d.size * d.inner >= kWorthATeam, [&] {
#pragma omp for schedule(static)
    for (int64_t job = 0; job < d.outer * pieces; ++job) {
      const int64_t first = job % pieces * kWidth, count = d.inner - first < kWidth ? d.inner - first : kWidth;
      const int64_t begin = job / pieces * d.size * d.inner + first;
      T sums[kWidth] = {};
      for (int64_t i = 0; i < d.size; ++i) {
        const int64_t at = begin + (d.reverse ? d.size - 1 - i : i) * d.inner;
        for (int64_t r = 0; r < count; ++r) {
          const T before = sums[r];
          sums[r] = static_cast<T>(before + x[at + r]);
          y[at + r] = d.exclusive ? before : sums[r];
        }
      }
    }
  });
}
template void cumSum(const CumSumDesc &, const float *, float *);
template void cumSum(const CumSumDesc &, const double *, double *);
template void cumSum(const CumSumDesc &, const int64_t *, int64_t *);
template void cumSum(const CumSumDesc &, const int32_t *, int32_t *);

}  // namespace hyc::kernels
