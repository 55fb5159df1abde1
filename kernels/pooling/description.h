// What programs know of pooling.
#ifndef HYC_KERNELS_POOLING_DESCRIPTION_H_
#define HYC_KERNELS_POOLING_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/pooling/op.h"

namespace hyc::kernels::described::pooling {

inline int64_t planes(const Call &c) { return product(c.operand("x").shape.first(2)); }

inline constexpr KernelDescription kKernels[] = {
    {.name = "max_pool",
     .outs = {{"y"}, {"indices"}},
     .ins = {{"x"}},
     .comment = "{x}",
     .fields = {size<&PoolingDesc::planes>("planes", planes), sizes<&PoolingDesc::size>("size", spatial, "x"),
                sizes<&PoolingDesc::window>("window", steps, "window"),
                sizes<&PoolingDesc::positions>("positions", spatial, "y"),
                sizes<&PoolingDesc::stride>("stride", steps, "strides"),
                sizes<&PoolingDesc::dilation>("dilation", steps, "dilations"),
                sizes<&PoolingDesc::low>("low", margins, "low")},
     .cpu = {"kernels/pooling/op.h", "maxPool(#desc, x, y, indices)"},
     .cuda = {"kernels/pooling/cuda.h", "maxPool(#desc, x, y, indices)"}},
};

}  // namespace hyc::kernels::described::pooling

#endif  // HYC_KERNELS_POOLING_DESCRIPTION_H_
