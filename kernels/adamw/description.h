// What programs know of Adam and AdamW.
#ifndef HYC_KERNELS_ADAMW_DESCRIPTION_H_
#define HYC_KERNELS_ADAMW_DESCRIPTION_H_

#include "kernels/adamw/op.h"
#include "kernels/description.h"

namespace hyc::kernels::described::adamw {

inline bool corrects(const Call &c) { return !c.flag("uncorrected"); }

// Adam's decay is part of the gradient. beta1 is this step's, where it cycles.
constexpr KernelDescription kernel(const char *name, const Field &decay) {
  return {
      .name = name,
      .outs = {{"p", Role::kUpdated}, {"m", Role::kUpdated}, {"v", Role::kUpdated}},
      .ins = {{"g"}, {"lr"}, {"step"}, {"scale"}, {"beta1", Role::kOptional, "cycles"}, {"predicate", Role::kOptional}},
      .comment = "{p}",
      .fields = {scalar<&AdamWParams::lr>("lr", "lr"), scalar<&AdamWParams::beta1>("beta1", "beta1", "beta1"),
                 real<&AdamWParams::beta2>("beta2", "beta2"), real<&AdamWParams::epsilon>("epsilon", "epsilon"),
                 real<&AdamWParams::weightDecay>("weightDecay", "weight_decay"),
                 scalar<&AdamWParams::step>("step", "step"), scalar<&AdamWParams::gradScale>("gradScale", "scale"),
                 decay, constant<false, &AdamWParams::correctsBias>("correctsBias", "false", corrects)},
      .cpu = {"kernels/adamw/op.h", "adamw(#desc, #count(p, m, v, g), p, g, m, v)"},
      .cuda = {"kernels/adamw/cuda.h"},
      .cudaTable = {.text = "adamw(#desc, {lr, step, scale, beta1, predicate}, #table)",
                    .rowType = "AdamWTensor",
                    .row = "#count(p, m, v, g), p, g, m, v",
                    .element = "g",
                    .shown = "p",
                    .rounded = "p",
                    .roundedCount = "#count(p, m, v, g)"},
      .isByElement = true};
}

inline constexpr KernelDescription kKernels[] = {
    kernel("adamw", {}),
    kernel("adam", constant<DecayKind::kAddedToGradient, &AdamWParams::decay>("decay", "DecayKind::kAddedToGradient")),
};

}  // namespace hyc::kernels::described::adamw

#endif  // HYC_KERNELS_ADAMW_DESCRIPTION_H_
