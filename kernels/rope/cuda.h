// Rotary positions on GPUs: the contract of op.h.
#ifndef HYC_KERNELS_ROPE_CUDA_H_
#define HYC_KERNELS_ROPE_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/rope/op.h"

namespace hyc::kernels::cuda {

// y may be x.
template <typename T>
void rope(Stream stream, const RopeDesc &desc, const T *x, const float *cos, const float *sin, T *y);

// frequencies: on the host, read before the call returns. Cosines are taken in f64.
void rotaryTable(Stream stream, const RotaryTableDesc &desc, const float *frequencies, float *cos, float *sin);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_ROPE_CUDA_H_
