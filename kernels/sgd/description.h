// What programs know of gradient descent. Velocity begins at zero, so that no step is the first one.
#ifndef HYC_KERNELS_SGD_DESCRIPTION_H_
#define HYC_KERNELS_SGD_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/sgd/op.h"

namespace hyc::kernels::described::sgd {

inline constexpr KernelDescription kKernels[] = {
    {.name = "sgd",
     .outs = {{"p", Role::kUpdated}},
     .ins = {{"g"}, {"lr"}, {"scale"}, {"predicate", Role::kOptional}},
     .comment = "{p}",
     .fields = {scalar<&SgdParams::lr>("lr", "lr"), real<&SgdParams::weightDecay>("weightDecay", "weight_decay"),
                constant<2, &SgdParams::step>("step", "2"), scalar<&SgdParams::gradScale>("gradScale", "scale")},
     .cpu = {"kernels/sgd/op.h", "sgd(#desc, #count(p, g), p, g, nullptr)"},
     .cuda = {"kernels/sgd/cuda.h", "sgd(#desc, lr, scale, predicate, #count(p, g), p, g, nullptr)"},
     .isByElement = true},
    {.name = "sgd_momentum",
     .outs = {{"p", Role::kUpdated}, {"velocity", Role::kUpdated}},
     .ins = {{"g"}, {"lr"}, {"scale"}, {"predicate", Role::kOptional}},
     .comment = "{p}",
     .fields = {scalar<&SgdParams::lr>("lr", "lr"), real<&SgdParams::momentum>("momentum", "momentum"),
                real<&SgdParams::weightDecay>("weightDecay", "weight_decay"),
                constant<2, &SgdParams::step>("step", "2"), scalar<&SgdParams::gradScale>("gradScale", "scale")},
     .cpu = {"kernels/sgd/op.h", "sgd(#desc, #count(p, velocity, g), p, g, velocity)"},
     .cuda = {"kernels/sgd/cuda.h", "sgd(#desc, lr, scale, predicate, #count(p, velocity, g), p, g, velocity)"},
     .isByElement = true},
};

}  // namespace hyc::kernels::described::sgd

#endif  // HYC_KERNELS_SGD_DESCRIPTION_H_
