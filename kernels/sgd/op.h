// Stochastic gradient descent with momentum over a flat range of elements, in PyTorch's order of operations.
//
//   g = gradScale · grad + weightDecay · param
//   buffer = momentum · buffer + (1 − dampening) · g   (buffer = g at step 1);  g = buffer, or g + momentum · buffer
//   param = param − lr · g
// (torch.optim.SGD.) Weight decay is part of the gradient here, unlike in AdamW. No operation is fused, so the bits do
// not depend on how the range is split.
#ifndef HYC_KERNELS_SGD_OP_H_
#define HYC_KERNELS_SGD_OP_H_

#include <cstdint>

#include "kernels/narrow_float.h"

namespace hyc::kernels {

enum class MomentumKind { kHeavyBall, kNesterov };

struct SgdParams {
  double lr = 1e-3, momentum = 0, dampening = 0, weightDecay = 0;
  MomentumKind kind = MomentumKind::kHeavyBall;
  int64_t step = 1;      // 1 at the first update, which ignores the old momentum buffer
  double gradScale = 1;  // clip factor / token count
};

// `buffer` may be null if momentum is 0. param and buffer are updated in place. T: float, Bf16 or F16.
template <typename T>
void sgd(const SgdParams &params, int64_t n, float *param, const T *grad, float *buffer);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_SGD_OP_H_
