// Stochastic gradient descent on GPUs: the contract of op.h, with the numbers of a step in device memory.
#ifndef HYC_KERNELS_SGD_CUDA_H_
#define HYC_KERNELS_SGD_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/sgd/op.h"

namespace hyc::kernels::cuda {

// lr and gradScale take the places of those of the parameters; predicate 0: nothing is updated; null: everything is.
template <typename T>
void sgd(Stream stream, const SgdParams &params, const float *lr, const float *gradScale, const uint8_t *predicate,
         int64_t n, float *param, const T *grad, float *buffer);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_SGD_CUDA_H_
