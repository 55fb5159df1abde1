// What is left of a product where cuBLASLt has no way to add the bias itself, or where k is 0.
#ifndef HYC_KERNELS_GEMM_CUDA_BIAS_H_
#define HYC_KERNELS_GEMM_CUDA_BIAS_H_

#include "kernels/cuda/stream.h"
#include "kernels/gemm/op.h"

namespace hyc::kernels::cuda {

// C = beta · C + bias. bias may be null.
template <typename T, typename C>
void scaleAndAddBias(Stream stream, const GemmDesc &desc, const T *bias, C *c);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_GEMM_CUDA_BIAS_H_
