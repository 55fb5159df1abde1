// Lion over a flat range of elements: Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms".
//
//   g = gradScale · grad
//   c = m · beta1 + (1 − beta1) · g
//   param = param · (1 − lr · weightDecay) − lr · sign(c)
//   m = m · beta2 + (1 − beta2) · g
//
// sign(0) is 0, as in the paper: DeepSpeed's kernels move an element whose c is 0 all the same, and with it the rows of
// an embedding that no token has read. Scalars are computed in f64 and rounded to f32 once; each operation on an
// element is rounded to f32. No operation is fused, so the bits do not depend on how the range is split.
#ifndef HYC_KERNELS_LION_OP_H_
#define HYC_KERNELS_LION_OP_H_

#include <cstdint>

#include "kernels/narrow_float.h"

namespace hyc::kernels {

struct LionParams {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weightDecay = 0;
  double gradScale = 1;  // clip factor / token count
};

// All ranges hold n elements; param and m are updated in place, grad, of T: float, Bf16 or F16, is only read.
template <typename T>
void lion(const LionParams &params, int64_t n, float *param, const T *grad, float *m);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_LION_OP_H_
