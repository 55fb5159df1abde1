// LAMB over a flat range of elements, in two passes with a norm between them: You et al. 2020, "Large Batch
// Optimization for Deep Learning: Training BERT in 76 minutes", algorithm 2, with DeepSpeed's bounds of the trust
// ratio.
//
//   lambDirection    g = gradScale · grad
//                    m = m + (1 − beta1) · (g − m)
//                    v = v · beta2 + ((1 − beta2) · g) · g
//                    u = (m / (1 − beta1^step)) / (sqrt(v / (1 − beta2^step)) + epsilon) + weightDecay · param
//   trustRatio       r = ‖param‖ / ‖u‖ within its bounds; 1 where either norm is 0
//   lambUpdate       param = param − (lr · r) · u
//
// The surprise: the direction u takes the place of the gradient, which nobody reads any more in this step, so that no
// memory is needed for it; a gradient of 16 bits rounds it, by half a unit of its type. Both norms are of the whole
// tensor: a rank that holds a part of it adds its squares to the others'. Scalars are computed in f64 and rounded to
// f32 once; each operation on an element is rounded to f32. No operation is fused, so the bits do not depend on how the
// range is split.
#ifndef HYC_KERNELS_LAMB_OP_H_
#define HYC_KERNELS_LAMB_OP_H_

#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/narrow_float.h"

namespace hyc::kernels {

struct LambParams {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0;
  int64_t step = 1;      // 1 at the first update
  double gradScale = 1;  // clip factor / token count
  bool correctsBias = true;
};

// All ranges hold n elements. grad, of T: float, Bf16 or F16, becomes the direction; m and v are updated in place.
template <typename T>
void lambDirection(const LambParams &params, int64_t n, const float *param, T *grad, float *m, float *v);

struct TrustRatioBounds {
  double least = 0.01, most = 10;  // DeepSpeed's min_coeff and max_coeff
};

// From the sums of squares of the whole parameter and the whole direction.
HYC_HOST_DEVICE inline double trustRatio(const TrustRatioBounds &bounds, double squaresOfParam,
                                         double squaresOfDirection) {
  if (squaresOfParam == 0 || squaresOfDirection == 0) return 1;
  const double ratio = std::sqrt(squaresOfParam) / std::sqrt(squaresOfDirection);
  return ratio > bounds.most ? bounds.most : ratio < bounds.least ? bounds.least : ratio;
}

// rate: lr · r. T: float, Bf16 or F16.
template <typename T>
void lambUpdate(double rate, int64_t n, float *param, const T *direction);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_LAMB_OP_H_
