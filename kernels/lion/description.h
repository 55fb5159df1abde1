// What programs know of Lion.
#ifndef HYC_KERNELS_LION_DESCRIPTION_H_
#define HYC_KERNELS_LION_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/lion/op.h"

namespace hyc::kernels::described::lion {

// beta1 is this step's, where it cycles.
inline constexpr KernelDescription kKernels[] = {
    {.name = "lion",
     .outs = {{"p", Role::kUpdated}, {"m", Role::kUpdated}},
     .ins = {{"g"}, {"lr"}, {"scale"}, {"beta1", Role::kOptional, "cycles"}, {"predicate", Role::kOptional}},
     .comment = "{p}",
     .fields = {scalar<&LionParams::lr>("lr", "lr"), scalar<&LionParams::beta1>("beta1", "beta1", "beta1"),
                real<&LionParams::beta2>("beta2", "beta2"),
                real<&LionParams::weightDecay>("weightDecay", "weight_decay"),
                scalar<&LionParams::gradScale>("gradScale", "scale")},
     .cpu = {"kernels/lion/op.h", "lion(#desc, #count(p, m, g), p, g, m)"},
     .cuda = {"kernels/lion/cuda.h", "lion(#desc, {lr, scale, beta1, predicate}, #count(p, m, g), p, g, m)"},
     .isByElement = true},
};

}  // namespace hyc::kernels::described::lion

#endif  // HYC_KERNELS_LION_DESCRIPTION_H_
