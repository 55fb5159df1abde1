// A loop over elements on GPUs: f(i) for every i below n, one element a thread, each grid as large as is worth it.
#ifndef HYC_KERNELS_CUDA_ELEMENTWISE_H_
#define HYC_KERNELS_CUDA_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace hyc::kernels::cuda {

template <typename Function>
__device__ inline void forEach(int64_t n, Function function) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) function(i);
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_ELEMENTWISE_H_
