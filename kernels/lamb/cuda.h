// LAMB on GPUs: the contract of op.h, with the numbers of a step in device memory. The trust ratio is in
// kernels/gradient_scale/cuda.h, with the other single numbers.
#ifndef HYC_KERNELS_LAMB_CUDA_H_
#define HYC_KERNELS_LAMB_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/lamb/op.h"

namespace hyc::kernels::cuda {

struct LambScalars {
  const int64_t *step;
  const float *gradScale;
  const double *beta1 = nullptr;       // null: as in the parameters
  const uint8_t *predicate = nullptr;  // 0: nothing is updated; null: everything is
};

template <typename T>
void lambDirection(Stream stream, const LambParams &params, const LambScalars &scalars, int64_t n, const float *param,
                   T *grad, float *m, float *v);

// rate: *lr · *ratio.
template <typename T>
void lambUpdate(Stream stream, const float *lr, const double *ratio, const uint8_t *predicate, int64_t n, float *param,
                const T *direction);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_LAMB_CUDA_H_
