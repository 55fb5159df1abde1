// Lion on GPUs: the contract of op.h, with the numbers of a step in device memory.
#ifndef HYC_KERNELS_LION_CUDA_H_
#define HYC_KERNELS_LION_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/lion/op.h"

namespace hyc::kernels::cuda {

struct LionScalars {
  const float *lr, *gradScale;
  const double *beta1 = nullptr;       // null: as in the parameters
  const uint8_t *predicate = nullptr;  // 0: nothing is updated; null: everything is
};

template <typename T>
void lion(Stream stream, const LionParams &params, const LionScalars &scalars, int64_t n, float *param, const T *grad,
          float *m);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_LION_CUDA_H_
