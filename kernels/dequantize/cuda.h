// Dequantisation on GPUs: the contract of op.h. `start`, where it is not null, takes the place of
// DequantizeDesc::start.
#ifndef HYC_KERNELS_DEQUANTIZE_CUDA_H_
#define HYC_KERNELS_DEQUANTIZE_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/dequantize/op.h"

namespace hyc::kernels::cuda {

template <typename T>
void dequantizeInt8(Stream stream, const DequantizeDesc &desc, const int64_t *start, const uint8_t *codes,
                    const float *absmax, T *out);

template <typename T>
void dequantizeNf4(Stream stream, const DequantizeDesc &desc, const int64_t *start, const uint8_t *codes,
                   const uint8_t *absmax, const float *scales, const float *mean, T *out);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_DEQUANTIZE_CUDA_H_
