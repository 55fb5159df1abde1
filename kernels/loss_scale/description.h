// What programs know of dynamic loss scaling.
#ifndef HYC_KERNELS_LOSS_SCALE_DESCRIPTION_H_
#define HYC_KERNELS_LOSS_SCALE_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/loss_scale/op.h"

namespace hyc::kernels::described::loss_scale {

inline constexpr KernelDescription kKernels[] = {
    {.name = "update_loss_scale",
     .outs = {{"scale", Role::kUpdated}, {"good_steps", Role::kUpdated}, {"hysteresis_left", Role::kUpdated}},
     .ins = {{"finite"}},
     .comment = "",
     .fields = {size<&LossScaleRules::window>("window", [](const Call &c) { return c.integer("window"); }),
                size<&LossScaleRules::hysteresis>("hysteresis", [](const Call &c) { return c.integer("hysteresis"); }),
                real<&LossScaleRules::minScale>("minScale", "min_scale"),
                flag<&LossScaleRules::consecutiveHysteresis>("consecutiveHysteresis", "consecutive_hysteresis")},
     .cpu = {"kernels/loss_scale/op.h", "updateLossScale(#desc, scale, good_steps, hysteresis_left, *finite != 0)"},
     .cuda = {"kernels/gradient_scale/cuda.h", "updateLossScale(#desc, scale, good_steps, hysteresis_left, finite)"}},
};

}  // namespace hyc::kernels::described::loss_scale

#endif  // HYC_KERNELS_LOSS_SCALE_DESCRIPTION_H_
