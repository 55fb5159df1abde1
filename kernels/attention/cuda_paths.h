// The two ways attention runs on a GPU; cuda.cu chooses.
#ifndef HYC_KERNELS_ATTENTION_CUDA_PATHS_H_
#define HYC_KERNELS_ATTENTION_CUDA_PATHS_H_

#include "kernels/attention/cuda_tile.h"

namespace hyc::kernels::cuda::attention {

// cuda_plain.cu: f32 arithmetic, any head dimension up to kAttentionMaxHeadDim.
template <typename T>
void forwardPlain(Stream stream, const AttentionDesc &desc, const int64_t *place, const Operands<T> &operands);
template <typename T>
void backwardPlain(Stream stream, const AttentionDesc &desc, const int64_t *place, const GradientOperands<T> &operands);

// cuda_forward.cu, cuda_backward.cu: tensor cores; T: Bf16 or F16.
template <typename T>
void forwardTiled(Stream stream, const AttentionDesc &desc, const int64_t *place, const Operands<T> &operands);
template <typename T>
void backwardTiled(Stream stream, const AttentionDesc &desc, const int64_t *place, const GradientOperands<T> &operands);

// With tiles of D dimensions, 64 or 128, which heads fill or are filled up to. One source file each.
template <typename T, int D>
void backwardTiledOf(Stream stream, const AttentionDesc &desc, const int64_t *place,
                     const GradientOperands<T> &operands);

}  // namespace hyc::kernels::cuda::attention

#endif  // HYC_KERNELS_ATTENTION_CUDA_PATHS_H_
