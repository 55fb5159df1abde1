// Dynamic loss scaling as DeepSpeed writes it down: a counter of all steps and the number of the last that overflowed.
#ifndef HYC_KERNELS_LOSS_SCALE_REFERENCE_H_
#define HYC_KERNELS_LOSS_SCALE_REFERENCE_H_

#include <algorithm>

#include "kernels/loss_scale/op.h"

namespace hyc::kernels::reference {

inline LossScaleState nextLossScale(const LossScaleRules &rules, const LossScaleState &now, bool finite) {
  LossScaleState next = now;
  const int64_t step = now.goodSteps, lastOverflow = -1;  // as if the run had begun after the last overflow
  if (finite) {
    if (rules.consecutiveHysteresis) next.hysteresisLeft = rules.hysteresis;
    if ((step - lastOverflow) % rules.window == 0) {
      next.hysteresisLeft = rules.hysteresis;
      next.scale *= 2;
    }
    ++next.goodSteps;
    return next;
  }
  next.goodSteps = 0;
  if (rules.hysteresis != 1 && now.hysteresisLeft > 1) {
    --next.hysteresisLeft;
  } else if (now.scale <= rules.minScale) {
    next.hysteresisLeft = 0;  // where DeepSpeed raises
  } else {
    next.scale = std::max(now.scale / 2, rules.minScale);
  }
  return next;
}

}  // namespace hyc::kernels::reference

#endif  // HYC_KERNELS_LOSS_SCALE_REFERENCE_H_
