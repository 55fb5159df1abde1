// Resampling along dimensions that follow one another: each result element is a weighted sum of a few elements that lie
// side by side. Interpolation of images, and its gradient, which has the transposed tables.
#ifndef HYC_KERNELS_RESAMPLE_OP_H_
#define HYC_KERNELS_RESAMPLE_OP_H_

#include <cstdint>

namespace hyc::kernels {

constexpr int kResampledDims = 3;

// x: [outer, from…, inner], y: [outer, to…, inner]. A dimension that is left as it is has no taps, and size 1.
struct ResampleDesc {
  int64_t outer = 1, inner = 1;
  int64_t from[kResampledDims] = {1, 1, 1}, to[kResampledDims] = {1, 1, 1}, taps[kResampledDims] = {};
};

// Along each dimension: y[i] = Σ weights[i, t] · x[firsts[i] + t] over its taps. `firsts` has `to` numbers a dimension,
// `weights` `to` · `taps`, in the order of the dimensions. One dimension after the other, terms added in the order of
// the taps, in f32; what is in between is not rounded to T. `workspace` holds workspaceBytes (passes.h) of
// omp_get_max_threads(), or is null: the calling thread then keeps scratch memory of its own. T: float, Bf16 or F16.
template <typename T>
void resample(const ResampleDesc &desc, const T *x, const int64_t *firsts, const float *weights, T *y,
              void *workspace = nullptr);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_RESAMPLE_OP_H_
