// What programs know of the factor of gradients, and of counters.
#ifndef HYC_KERNELS_GRADIENT_SCALE_DESCRIPTION_H_
#define HYC_KERNELS_GRADIENT_SCALE_DESCRIPTION_H_

#include "kernels/description.h"

namespace hyc::kernels::described::gradient_scale {

inline constexpr KernelDescription kKernels[] = {
    {.name = "gradient_scale",
     .outs = {{"scale"}, {"norm"}},
     .ins = {{"squares"}, {"count"}, {"loss_scale", Role::kOptional}},
     .comment = "",
     .cpu = {"kernels/gradient_scale/op.h",
             "gradientScale(*squares, *count, @max_norm|kNoClipping, scale, norm[, *loss_scale / @normalizer])"},
     .cuda = {"kernels/gradient_scale/cuda.h",
              "gradientScale(squares, count, @max_norm|kNoClipping, scale, norm[, loss_scale, @normalizer])"}},
    // One more, or none where the predicate is 0. For CPUs an expression.
    {.name = "increment",
     .outs = {{"counter", Role::kUpdated}},
     .ins = {{"predicate", Role::kOptional}},
     .comment = "",
     .cuda = {"kernels/gradient_scale/cuda.h", "increment(counter[, predicate])"}},
};

}  // namespace hyc::kernels::described::gradient_scale

#endif  // HYC_KERNELS_GRADIENT_SCALE_DESCRIPTION_H_
