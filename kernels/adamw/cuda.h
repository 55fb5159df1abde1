// Adam and AdamW on GPUs: the contract of op.h, for several tensors at a time. Numbers that a step computes are read
// from device memory, so that the host waits for none of them.
#ifndef HYC_KERNELS_ADAMW_CUDA_H_
#define HYC_KERNELS_ADAMW_CUDA_H_

#include "kernels/adamw/op.h"
#include "kernels/cuda/stream.h"

namespace hyc::kernels::cuda {

// Take the places of lr, step, gradScale and beta1 in AdamWParams.
struct AdamWScalars {
  const float *lr;
  const int64_t *step;
  const float *gradScale;
  const double *beta1 = nullptr;       // null: as in the parameters
  const uint8_t *predicate = nullptr;  // 0: nothing is updated; null: everything is
};

// n elements, gradients of T: float, Bf16 or F16. `rounded`, where it is not null, gets the new parameter as R holds
// it: the copy that the next step computes with. R: T, or of float gradients any.
template <typename T, typename R = T>
struct AdamWTensor {
  int64_t n;
  float *param;
  const T *grad;
  float *m, *v;
  R *rounded = nullptr;
};

constexpr int kAdamWTensorsAtOnce = 64;

template <typename T, typename R>
void adamw(Stream stream, const AdamWParams &params, const AdamWScalars &scalars, const AdamWTensor<T, R> *tensors,
           int count);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_ADAMW_CUDA_H_
