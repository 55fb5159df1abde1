// The factor that turns a sum of gradients into the clipped mean gradient, from the sum of their squares.
//
//   norm = sqrt(sumOfSquares) / count,  scale = min(1, maxNorm / (norm + 1e-6)) / count
// as torch.nn.utils.clip_grad_norm_ has it. Where the gradients are those of `lossFactor` times the loss, count is
// multiplied by it first. Computed in f64 and rounded to f32 once. The surprise: with no token counted both are 0, so
// that a step without targets changes nothing but the decay.
#ifndef HYC_KERNELS_GRADIENT_SCALE_OP_H_
#define HYC_KERNELS_GRADIENT_SCALE_OP_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/host_device.h"

namespace hyc::kernels {

constexpr double kNoClipping = std::numeric_limits<double>::infinity();

HYC_HOST_DEVICE inline void gradientScale(double sumOfSquares, int64_t count, double maxNorm, float *scale, float *norm,
                                          double lossFactor = 1) {
  const double tokens = static_cast<double>(count) * lossFactor;
  const double meanNorm = count > 0 ? std::sqrt(sumOfSquares) / tokens : 0;
  const double clip = maxNorm < meanNorm + 1e-6 ? maxNorm / (meanNorm + 1e-6) : 1;
  *norm = static_cast<float>(meanNorm);
  *scale = count > 0 ? static_cast<float>(clip / tokens) : 0;
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_GRADIENT_SCALE_OP_H_
