// A loop over elements on GPUs: f(i) for every i below n, one element a thread, each grid as large as is worth it.
#ifndef HYC_KERNELS_CUDA_ELEMENTWISE_H_
#define HYC_KERNELS_CUDA_ELEMENTWISE_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace hyc::kernels::cuda {

// Index: what f takes. In int32_t a position is taken apart in a few instructions; n is then below 2^31, and so is the
// size of the grid.
template <typename Index = int64_t, typename Function>
__device__ inline void forEach(int64_t n, Function function) {
  using Unsigned = std::make_unsigned_t<Index>;  // the step beyond n may pass the largest Index
  const Unsigned end = static_cast<Unsigned>(n), stride = static_cast<Unsigned>(gridDim.x) * blockDim.x;
  for (Unsigned i = static_cast<Unsigned>(blockIdx.x) * blockDim.x + threadIdx.x; i < end; i += stride)
    function(static_cast<Index>(i));
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_ELEMENTWISE_H_
