// What programs know of the scales of 8-bit tensors.
#ifndef HYC_KERNELS_FP8_SCALE_DESCRIPTION_H_
#define HYC_KERNELS_FP8_SCALE_DESCRIPTION_H_

#include "kernels/description.h"

namespace hyc::kernels::described::fp8_scale {

inline constexpr KernelDescription kKernels[] = {
    {.name = "update_fp8_scale",
     .outs = {{"scale", Role::kUpdated}, {"inverse", Role::kUpdated}, {"history", Role::kUpdated}},
     .ins = {{"amax"}},
     .comment = "",
     .cpu = {"kernels/fp8_scale/op.h", "updateFp8Scale(@largest, #elements(history), *amax, scale, inverse, history)"},
     .cuda = {"kernels/fp8_scale/cuda.h",
              "updateFp8Scale(@largest, #elements(history), amax, scale, inverse, history)"}},
    // to = from, or the greater of both: scalars of f32. For CPUs an expression.
    {.name = "accumulate_max",
     .outs = {{"to", Role::kByMode}},
     .ins = {{"from"}},
     .comment = "",
     .cpu = {"kernels/reduce/op.h"},
     .cuda = {"kernels/fp8_scale/cuda.h", "accumulateMax(to, from, #mode)"}},
};

}  // namespace hyc::kernels::described::fp8_scale

#endif  // HYC_KERNELS_FP8_SCALE_DESCRIPTION_H_
