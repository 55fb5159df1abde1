// What programs know of rms_norm and its gradient.
#ifndef HYC_KERNELS_RMS_NORM_DESCRIPTION_H_
#define HYC_KERNELS_RMS_NORM_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/rms_norm/op.h"

namespace hyc::kernels::described::rms_norm {

inline int64_t rows(const Call &c) { return c.operand("x").rows(); }
inline int64_t cols(const Call &c) { return c.operand("x").last(); }

inline constexpr KernelDescription kKernels[] = {
    {.name = "rms_norm",
     .outs = {{"y"}, {"rstd"}},
     .ins = {{"x"}, {"scale"}},
     .comment = "{x}",
     .fields = {size<&RmsNormDesc::rows>("rows", rows), size<&RmsNormDesc::cols>("cols", cols),
                real<&RmsNormDesc::epsilon>("epsilon", "epsilon")},
     .cpu = {"kernels/rms_norm/op.h", "rmsNormForward(#desc, x, scale, y, rstd)"},
     .cuda = {"kernels/rms_norm/cuda.h", "rmsNormForward(#desc, x, scale, y, rstd)"},
     .reuses = {{"y", "x"}}},
    {.name = "rms_norm_grad",
     .outs = {{"dx"}, {"dscale", Role::kByMode}, {"workspace", Role::kScratch}},
     .ins = {{"x"}, {"scale"}, {"rstd"}, {"dy"}},
     .comment = "{x}",
     .fields = {size<&RmsNormDesc::rows>("rows", rows), size<&RmsNormDesc::cols>("cols", cols)},
     .cpu = {"kernels/rms_norm/op.h", "rmsNormBackward(#desc, x, scale, rstd, dy, dx, dscale, #mode, workspace)"},
     .cuda = {"kernels/rms_norm/cuda.h", "rmsNormBackward(#desc, x, scale, rstd, dy, dx, dscale, #mode, workspace)"},
     .reuses = {{"dx", "dy"}}},
};

}  // namespace hyc::kernels::described::rms_norm

#endif  // HYC_KERNELS_RMS_NORM_DESCRIPTION_H_
