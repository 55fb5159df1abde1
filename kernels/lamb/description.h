// What programs know of LAMB's three parts. The direction takes the place of the gradient.
#ifndef HYC_KERNELS_LAMB_DESCRIPTION_H_
#define HYC_KERNELS_LAMB_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/lamb/op.h"

namespace hyc::kernels::described::lamb {

inline bool corrects(const Call &c) { return !c.flag("uncorrected"); }

// beta1 is this step's, where it cycles.
inline constexpr KernelDescription kKernels[] = {
    {.name = "lamb_direction",
     .outs = {{"direction", Role::kUpdated}, {"m", Role::kUpdated}, {"v", Role::kUpdated}},
     .ins = {{"p"}, {"step"}, {"scale"}, {"beta1", Role::kOptional, "cycles"}, {"predicate", Role::kOptional}},
     .comment = "{direction}",
     .fields = {scalar<&LambParams::beta1>("beta1", "beta1", "beta1"), real<&LambParams::beta2>("beta2", "beta2"),
                real<&LambParams::epsilon>("epsilon", "epsilon"),
                real<&LambParams::weightDecay>("weightDecay", "weight_decay"),
                scalar<&LambParams::step>("step", "step"), scalar<&LambParams::gradScale>("gradScale", "scale"),
                constant<false, &LambParams::correctsBias>("correctsBias", "false", corrects)},
     .cpu = {"kernels/lamb/op.h", "lambDirection(#desc, #count(direction, m, v, p), p, direction, m, v)"},
     .cuda = {"kernels/lamb/cuda.h",
              "lambDirection(#desc, {step, scale, beta1, predicate}, #count(direction, m, v, p), p, direction, m, v)"},
     .isByElement = true},
    {.name = "trust_ratio",
     .outs = {{"ratio"}},
     .ins = {{"squares_of_param"}, {"squares_of_direction"}},
     .comment = "",
     .fields = {real<&TrustRatioBounds::least>("least", "least"), real<&TrustRatioBounds::most>("most", "most")},
     .cpu = {"kernels/lamb/op.h", "*ratio = trustRatio(#desc, *squares_of_param, *squares_of_direction)"},
     .cuda = {"kernels/gradient_scale/cuda.h", "trustRatio(#desc, squares_of_param, squares_of_direction, ratio)"}},
    {.name = "lamb",
     .outs = {{"p", Role::kUpdated}},
     .ins = {{"direction"}, {"lr"}, {"ratio"}, {"predicate", Role::kOptional}},
     .comment = "{p}",
     .cpu = {"kernels/lamb/op.h", "lambUpdate(*lr * *ratio, #count(p, direction), p, direction)"},
     .cuda = {"kernels/lamb/cuda.h", "lambUpdate(lr, ratio, predicate, #count(p, direction), p, direction)"},
     .isByElement = true},
};

}  // namespace hyc::kernels::described::lamb

#endif  // HYC_KERNELS_LAMB_DESCRIPTION_H_
