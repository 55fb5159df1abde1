// What programs know of rotary positions and their tables.
#ifndef HYC_KERNELS_ROPE_DESCRIPTION_H_
#define HYC_KERNELS_ROPE_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/rope/op.h"

namespace hyc::kernels::described::rope {

inline int64_t batch(const Call &c) { return c.operand("x").shape[0]; }
inline int64_t length(const Call &c) { return c.operand("x").shape[1]; }
inline int64_t heads(const Call &c) { return c.operand("x").shape[2]; }
inline int64_t headDim(const Call &c) { return c.operand("x").shape[3]; }
inline int64_t pairs(const Call &c) { return c.operand("cos").last(); }
inline int64_t positions(const Call &c) { return c.operand("cos").shape[0]; }
inline bool isTableShared(const Call &c) { return c.operand("cos").shape.size() != 3; }
inline bool isForward(const Call &c) { return !c.flag("inverse"); }

inline constexpr KernelDescription kKernels[] = {
    {.name = "rope",
     .outs = {{"y"}},
     .ins = {{"x"}, {"cos"}, {"sin"}},
     .comment = "{x}",
     .fields = {size<&RopeDesc::batch>("batch", batch), size<&RopeDesc::length>("length", length),
                size<&RopeDesc::heads>("heads", heads), size<&RopeDesc::headDim>("headDim", headDim),
                size<&RopeDesc::pairs>("pairs", pairs),
                constant<true, &RopeDesc::tablePerSample>("tablePerSample", "true", isTableShared),
                flag<&RopeDesc::inverse>("inverse", "inverse", isForward)},
     .cpu = {"kernels/rope/op.h", "rope(#desc, x, cos, sin, y)"},
     .cuda = {"kernels/rope/cuda.h", "rope(#desc, x, cos, sin, y)"},
     .reuses = {{"y", "x"}}},
    {.name = "rotary_table",
     .outs = {{"cos"}, {"sin"}},
     .comment = "{cos}",
     .fields = {size<&RotaryTableDesc::positions>("positions", positions),
                size<&RotaryTableDesc::pairs>("pairs", pairs), real<&RotaryTableDesc::factor>("factor", "factor")},
     .cpu = {"kernels/rope/op.h", "rotaryTable(#desc, @frequencies, cos, sin)"},
     .cuda = {"kernels/rope/cuda.h", "rotaryTable(#desc, @frequencies, cos, sin)"}},
};

}  // namespace hyc::kernels::described::rope

#endif  // HYC_KERNELS_ROPE_DESCRIPTION_H_
