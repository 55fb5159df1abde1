// What programs know of layer_norm and its gradient.
#ifndef HYC_KERNELS_LAYER_NORM_DESCRIPTION_H_
#define HYC_KERNELS_LAYER_NORM_DESCRIPTION_H_

#include "kernels/cuda/row_blocks.h"
#include "kernels/description.h"
#include "kernels/layer_norm/op.h"

namespace hyc::kernels::described::layer_norm {

inline int64_t rows(const Call &c) { return c.operand("x").rows(); }
inline int64_t cols(const Call &c) { return c.operand("x").last(); }

// What a norm's gradient keeps of sums over rows, each a vector of a row's length, for each block of them.
inline int64_t rowSumsBytes(int64_t rows, int64_t cols, int64_t vectors, bool onGpu) {
  if (onGpu) return cuda::rowSumsBytes(rows, cols, vectors);
  LayerNormDesc desc;
  desc.rows = rows, desc.cols = cols;
  return static_cast<int64_t>(layerNormBackwardWorkspaceBytes(desc)) / 2 * vectors;
}

inline constexpr KernelDescription kKernels[] = {
    {.name = "layer_norm",
     .outs = {{"y"}, {"mean"}, {"rstd"}},
     .ins = {{"x"}, {"scale"}, {"bias"}},
     .comment = "{x}",
     .fields = {size<&LayerNormDesc::rows>("rows", rows), size<&LayerNormDesc::cols>("cols", cols),
                real<&LayerNormDesc::epsilon>("epsilon", "epsilon")},
     .cpu = {"kernels/layer_norm/op.h", "layerNormForward(#desc, x, scale, bias, y, mean, rstd)"},
     .cuda = {"kernels/layer_norm/cuda.h", "layerNormForward(#desc, x, scale, bias, y, mean, rstd)"},
     .reuses = {{"y", "x"}}},
    {.name = "layer_norm_grad",
     .outs = {{"dx"}, {"dscale", Role::kByMode}, {"dbias", Role::kByMode}, {"workspace", Role::kScratch}},
     .ins = {{"x"}, {"scale"}, {"mean"}, {"rstd"}, {"dy"}},
     .comment = "{x}",
     .fields = {size<&LayerNormDesc::rows>("rows", rows), size<&LayerNormDesc::cols>("cols", cols)},
     .cpu = {"kernels/layer_norm/op.h",
             "layerNormBackward(#desc, x, scale, mean, rstd, dy, dx, dscale, dbias, #mode, workspace)"},
     .cuda = {"kernels/layer_norm/cuda.h",
              "layerNormBackward(#desc, x, scale, mean, rstd, dy, dx, dscale, dbias, #mode, workspace)"},
     .reuses = {{"dx", "dy"}}},
};

}  // namespace hyc::kernels::described::layer_norm

#endif  // HYC_KERNELS_LAYER_NORM_DESCRIPTION_H_
