// Reduction of the middle dimension of [outer, r, inner] to [outer, inner]: sum, mean or maximum.
//
// inner = 1 reduces rows; outer = 1 reduces columns, as for a bias gradient. Sums are taken in f32 with a tree that
// depends on the shape alone: over rows 32 fixed lanes (lane l adds elements l, l + 32, …; then lanes 16, 8, 4, 2, 1
// apart are added); over the middle of larger inner sizes, runs of kReduceRun elements are added in order, then the
// runs' sums in order. Neither needs a workspace.
#ifndef HYC_KERNELS_REDUCE_OP_H_
#define HYC_KERNELS_REDUCE_OP_H_

#include <cstdint>

#include "kernels/write_mode.h"

namespace hyc::kernels {

enum class ReduceKind { kSum, kMean, kMax };

struct ReduceDesc {
  int64_t outer = 1, r = 1, inner = 1;
  ReduceKind kind = ReduceKind::kSum;
  WriteMode mode = WriteMode::kOverwrite;  // kAccumulate only with kSum and kMean
};

constexpr int64_t kReduceLanes = 32;
constexpr int64_t kReduceRun = 64;

// The maximum of no elements is −∞; a NaN is passed over by kMax.
void reduce(const ReduceDesc &desc, const float *x, float *out);

// out[c] = (or +=) Σ_r x[r, c].
inline void columnSum(int64_t rows, int64_t cols, const float *x, float *out, WriteMode mode) {
  reduce({1, rows, cols, ReduceKind::kSum, mode}, x, out);
}
// out[r] = (or +=) Σ_c x[r, c].
inline void rowSum(int64_t rows, int64_t cols, const float *x, float *out, WriteMode mode) {
  reduce({rows, cols, 1, ReduceKind::kSum, mode}, x, out);
}
inline void rowMax(int64_t rows, int64_t cols, const float *x, float *out) {
  reduce({rows, cols, 1, ReduceKind::kMax, WriteMode::kOverwrite}, x, out);
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_REDUCE_OP_H_
