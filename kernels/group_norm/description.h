// What programs know of group_norm and its gradient.
#ifndef HYC_KERNELS_GROUP_NORM_DESCRIPTION_H_
#define HYC_KERNELS_GROUP_NORM_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/group_norm/op.h"

namespace hyc::kernels::described::group_norm {

inline int64_t samples(const Call &c) { return c.operand("x").shape[0]; }
inline int64_t groups(const Call &c) { return c.operand("x").shape[1]; }
inline int64_t channels(const Call &c) { return c.operand("x").shape[2]; }
inline int64_t positions(const Call &c) { return c.operand("x").shape[3]; }

// Scratch memory of the gradient of x of this shape: on GPUs a pair of sums for each channel of each sample.
inline int64_t workspaceBytes(Numbers shape, bool onGpu) {
  const GroupNormDesc desc = {shape[0], shape[1], shape[2], shape[3]};
  return onGpu ? product(shape.first(3)) * 2 * int64_t{sizeof(float)}
               : static_cast<int64_t>(groupNormBackwardWorkspaceBytes(desc));
}

inline constexpr KernelDescription kKernels[] = {
    {.name = "group_norm",
     .outs = {{"y"}, {"mean"}, {"rstd"}},
     .ins = {{"x"}, {"scale"}, {"bias"}},
     .comment = "{x}",
     .fields = {size<&GroupNormDesc::samples>("samples", samples), size<&GroupNormDesc::groups>("groups", groups),
                size<&GroupNormDesc::channels>("channels", channels),
                size<&GroupNormDesc::positions>("positions", positions),
                real<&GroupNormDesc::epsilon>("epsilon", "epsilon")},
     .cpu = {"kernels/group_norm/op.h", "groupNormForward(#desc, x, scale, bias, y, mean, rstd)"},
     .cuda = {"kernels/group_norm/cuda.h", "groupNormForward(#desc, x, scale, bias, y, mean, rstd)"},
     .reuses = {{"y", "x"}}},
    {.name = "group_norm_grad",
     .outs = {{"dx"}, {"dscale", Role::kByMode}, {"dbias", Role::kByMode}, {"workspace", Role::kScratch}},
     .ins = {{"x"}, {"scale"}, {"mean"}, {"rstd"}, {"dy"}},
     .comment = "{x}",
     .fields = {size<&GroupNormDesc::samples>("samples", samples), size<&GroupNormDesc::groups>("groups", groups),
                size<&GroupNormDesc::channels>("channels", channels),
                size<&GroupNormDesc::positions>("positions", positions)},
     .cpu = {"kernels/group_norm/op.h",
             "groupNormBackward(#desc, x, scale, mean, rstd, dy, dx, dscale, dbias, #mode, workspace)"},
     .cuda = {"kernels/group_norm/cuda.h",
              "groupNormBackward(#desc, x, scale, mean, rstd, dy, dx, dscale, dbias, #mode, workspace)"},
     .reuses = {{"dx", "dy"}}},
};

}  // namespace hyc::kernels::described::group_norm

#endif  // HYC_KERNELS_GROUP_NORM_DESCRIPTION_H_
