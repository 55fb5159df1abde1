// Attention backward on tensor cores, f16 heads of up to 64 dimensions.
#include "kernels/attention/cuda_gradient.h"

namespace hyc::kernels::cuda::attention {

template void backwardTiledOf<F16, 64>(Stream, const AttentionDesc &, const int64_t *, const GradientOperands<F16> &);

}  // namespace hyc::kernels::cuda::attention
