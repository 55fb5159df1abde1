// Dynamic loss scaling: the factor on the loss that keeps 16-bit gradients in range, and how it follows overflows.
//
// The rules are those of DeepSpeed's DynamicLossScaler. It counts all steps and remembers the last that overflowed;
// here the steps since then are counted, which is the same. The surprise: with a hysteresis of h only the h-th overflow
// lowers the scale, and so does every further one until `window` good steps in a row (or a single one, with
// `consecutiveHysteresis`) fill the hysteresis up again. As in PyTorch's GradScaler, and other than in DeepSpeed, it
// does not grow past what f32 holds.
#ifndef HYC_KERNELS_LOSS_SCALE_OP_H_
#define HYC_KERNELS_LOSS_SCALE_OP_H_

#include <cstdint>

#include "kernels/host_device.h"

namespace hyc::kernels {

struct LossScaleRules {
  int64_t window = 1000;   // good steps until the scale doubles; at least 1
  int64_t hysteresis = 2;  // overflows until it is halved; at least 1
  double minScale = 1;     // it is never lowered below this
  bool consecutiveHysteresis = false;
};

constexpr double kMostLossScale = 3.4028234663852886e38;  // f32's largest finite number

struct LossScaleState {
  double scale = 65536;
  int64_t goodSteps = 0;       // since the last overflow
  int64_t hysteresisLeft = 2;  // 0: overflowed at minScale with no hysteresis left
};

// After a step whose gradients were finite, or not. Every rank computes this alike from equal inputs.
HYC_HOST_DEVICE inline LossScaleState nextLossScale(const LossScaleRules &rules, LossScaleState now, bool finite) {
  if (!finite) {
    const bool lowers = now.hysteresisLeft <= 1;
    const double half = now.scale / 2 > rules.minScale ? now.scale / 2 : rules.minScale;
    const bool exhausted = lowers && now.scale <= rules.minScale;
    return {lowers && !exhausted ? half : now.scale, 0,
            exhausted ? 0
            : lowers  ? now.hysteresisLeft
                      : now.hysteresisLeft - 1};
  }
  const int64_t goodSteps = now.goodSteps + 1;
  const bool grows = goodSteps % rules.window == 0;
  return {grows && now.scale * 2 <= kMostLossScale ? now.scale * 2 : now.scale, goodSteps,
          grows || rules.consecutiveHysteresis ? rules.hysteresis : now.hysteresisLeft};
}

// The same on the states where they lie.
HYC_HOST_DEVICE inline void updateLossScale(const LossScaleRules &rules, float *scale, int64_t *goodSteps,
                                            int64_t *hysteresisLeft, bool finite) {
  const LossScaleState next = nextLossScale(rules, {*scale, *goodSteps, *hysteresisLeft}, finite);
  *scale = static_cast<float>(next.scale);
  *goodSteps = next.goodSteps;
  *hysteresisLeft = next.hysteresisLeft;
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_LOSS_SCALE_OP_H_
