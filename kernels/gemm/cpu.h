// What the parts of the CPU's gemm share.
#ifndef HYC_KERNELS_GEMM_CPU_H_
#define HYC_KERNELS_GEMM_CPU_H_

#include "kernels/gemm/op.h"

namespace hyc::kernels {

// m, n, k and batch are positive. `packed` is null, or takes the place of b. `scratch` holds gemmWorkspaceBytes.
void gemmWithScratch(const GemmDesc &desc, const float *a, const float *b, const float *packed, const float *bias,
                     float *c, float *scratch);

// By AMX tiles, which the CPU and the operating system grant (amxIsUsable); sizes are positive.
// `scratch` is aligned to 64 bytes.
template <typename C>
void gemmByAmx(const GemmDesc &desc, const Bf16 *a, const Bf16 *b, const Bf16 *bias, C *c, float *scratch);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_GEMM_CPU_H_
