// Attention backward on tensor cores: which width of tiles a call takes. The kernels are cuda_gradient.h's.
#include "kernels/attention/cuda_paths.h"

namespace hyc::kernels::cuda::attention {

template <typename T>
void backwardTiled(Stream stream, const AttentionDesc &d, const int64_t *place, const GradientOperands<T> &operands) {
  if (d.headDim <= 64)
    backwardTiledOf<T, 64>(stream, d, place, operands);
  else
    backwardTiledOf<T, 128>(stream, d, place, operands);
}

template void backwardTiled<Bf16>(Stream, const AttentionDesc &, const int64_t *, const GradientOperands<Bf16> &);
template void backwardTiled<F16>(Stream, const AttentionDesc &, const int64_t *, const GradientOperands<F16> &);

}  // namespace hyc::kernels::cuda::attention
