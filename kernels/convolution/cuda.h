// Convolutions on GPUs: the contract of op.h; products are cuBLASLt's, with its order of sums.
#ifndef HYC_KERNELS_CONVOLUTION_CUDA_H_
#define HYC_KERNELS_CONVOLUTION_CUDA_H_

#include "kernels/convolution/op.h"
#include "kernels/cuda/stream.h"

namespace hyc::kernels::cuda {

// columns: convolutionColumns(desc) floats; gemmWorkspace: what kernels/gemm/cuda.h asks for. Neither where
// desc.isDirect().
void convolution(Stream stream, const ConvolutionDesc &desc, const float *x, const float *w, float *y, float *columns,
                 void *gemmWorkspace = nullptr);
void convolutionTranspose(Stream stream, const ConvolutionDesc &desc, const float *y, const float *w, float *x,
                          float *columns, void *gemmWorkspace = nullptr);
void convolutionWeight(Stream stream, const ConvolutionDesc &desc, const float *x, const float *y, float *w,
                       float *columns, WriteMode mode, void *gemmWorkspace = nullptr);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CONVOLUTION_CUDA_H_
