// Adam and AdamW over a flat range of elements, in PyTorch's formula and order of operations.
//
//   g = gradScale · grad                           Adam (decay added to the gradient): g = g + weightDecay · param
//   param = param · (1 − lr · weightDecay)         AdamW (decoupled decay) only
//   m = m + (1 − beta1) · (g − m)
//   v = v · beta2 + ((1 − beta2) · g) · g
//   param = param + (−lr / (1 − beta1^step) · m) / (sqrt(v) / sqrt(1 − beta2^step) + epsilon)
// (torch.optim.Adam and AdamW, foreach=False.) Without bias correction the two roots of 1 − beta^step are 1. Scalars
// are computed in f64 and rounded to f32 once; each operation on an element is rounded to f32. No operation is fused,
// so the bits do not depend on how the range is split.
#ifndef HYC_KERNELS_ADAMW_OP_H_
#define HYC_KERNELS_ADAMW_OP_H_

#include <cstdint>

#include "kernels/narrow_float.h"

namespace hyc::kernels {

enum class DecayKind { kDecoupled, kAddedToGradient };

struct AdamWParams {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0;
  int64_t step = 1;      // 1 at the first update
  double gradScale = 1;  // clip factor / token count
  DecayKind decay = DecayKind::kDecoupled;
  bool correctsBias = true;
};

// All ranges hold n elements; param, m and v are updated in place, grad, of T: float, Bf16 or F16, is only read.
template <typename T>
void adamw(const AdamWParams &params, int64_t n, float *param, const T *grad, float *m, float *v);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_ADAMW_OP_H_
