// Dynamic loss scaling as DeepSpeed writes it down: a counter of all steps and the number of the last that overflowed.
#ifndef HYC_KERNELS_LOSS_SCALE_REFERENCE_H_
#define HYC_KERNELS_LOSS_SCALE_REFERENCE_H_

#include <algorithm>
#include <cmath>

#include "kernels/description.h"
#include "kernels/loss_scale/op.h"

namespace hyc::kernels::reference {

inline LossScaleState nextLossScale(const LossScaleRules &rules, const LossScaleState &now, bool finite) {
  LossScaleState next = now;
  const int64_t step = now.goodSteps, lastOverflow = -1;  // as if the run had begun after the last overflow
  if (finite) {
    if (rules.consecutiveHysteresis) next.hysteresisLeft = rules.hysteresis;
    if ((step - lastOverflow) % rules.window == 0) {
      next.hysteresisLeft = rules.hysteresis;
      if (std::isfinite(static_cast<float>(next.scale * 2))) next.scale *= 2;
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

namespace hyc::kernels::executed::loss_scale {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("update_loss_scale",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        T *scale = c.out<T>("scale");
                        int64_t *good = c.out<int64_t>("good_steps"), *left = c.out<int64_t>("hysteresis_left");
                        const LossScaleState next = reference::nextLossScale(
                            c.desc<LossScaleRules>(), {*scale, *good, *left}, c.integerValue("finite") != 0);
                        *scale = static_cast<T>(next.scale);
                        *good = next.goodSteps;
                        *left = next.hysteresisLeft;
                      }),
};

}  // namespace hyc::kernels::executed::loss_scale

#endif  // HYC_KERNELS_LOSS_SCALE_REFERENCE_H_
