// Reduction of the middle dimension in plain loops, for any scalar type.
#ifndef HYC_KERNELS_REDUCE_REFERENCE_H_
#define HYC_KERNELS_REDUCE_REFERENCE_H_

#include <cmath>
#include <limits>

#include "kernels/reduce/op.h"

namespace hyc::kernels::reference {

template <typename T>
void reduce(const ReduceDesc &d, const T *x, T *out) {
  for (int64_t o = 0; o < d.outer; ++o)
    for (int64_t i = 0; i < d.inner; ++i) {
      T result = d.kind == ReduceKind::kMax ? -std::numeric_limits<T>::infinity() : T(0);
      for (int64_t r = 0; r < d.r; ++r) {
        const T value = x[(o * d.r + r) * d.inner + i];
        result = d.kind == ReduceKind::kMax ? std::fmax(result, value) : result + value;
      }
      if (d.kind == ReduceKind::kMean) result = result / T(d.r);
      T &destination = out[o * d.inner + i];
      destination = d.mode == WriteMode::kAccumulate ? destination + result : result;
    }
}

}  // namespace hyc::kernels::reference

#endif  // HYC_KERNELS_REDUCE_REFERENCE_H_
