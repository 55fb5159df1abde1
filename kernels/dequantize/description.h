// What programs know of dequantisation.
#ifndef HYC_KERNELS_DEQUANTIZE_DESCRIPTION_H_
#define HYC_KERNELS_DEQUANTIZE_DESCRIPTION_H_

#include "kernels/dequantize/op.h"
#include "kernels/description.h"

namespace hyc::kernels::described::dequantize {

// Lists of six numbers.
inline Sizes six(const Call &c, const char *attribute) {
  Sizes all = {{}, 6};
  const Numbers values = c.list(attribute);
  for (size_t i = 0; i < values.size() && i < 6; ++i) all.at[i] = values[i];
  return all;
}
inline int64_t inputs(const Call &c) { return c.integer("inputs"); }

inline constexpr KernelDescription kKernels[] = {
    {.name = "dequantize_int8",
     .outs = {{"w"}},
     .ins = {{"codes"}, {"absmax"}, {"start", Role::kOptional}},
     .comment = "{w}",
     .fields = {sizes<&DequantizeDesc::sizes>("sizes", six, "sizes"),
                sizes<&DequantizeDesc::strides>("strides", six, "strides"),
                scalar<&DequantizeDesc::start>("start", "start"), size<&DequantizeDesc::inputs>("inputs", inputs)},
     .cpu = {"kernels/dequantize/op.h", "dequantizeInt8(#desc, codes, absmax, w)"},
     .cuda = {"kernels/dequantize/cuda.h", "dequantizeInt8(#desc, start, codes, absmax, w)"}},
    {.name = "dequantize_nf4",
     .outs = {{"w"}},
     .ins = {{"codes"}, {"absmax"}, {"scales"}, {"mean"}, {"start", Role::kOptional}},
     .comment = "{w}",
     .fields = {sizes<&DequantizeDesc::sizes>("sizes", six, "sizes"),
                sizes<&DequantizeDesc::strides>("strides", six, "strides"),
                scalar<&DequantizeDesc::start>("start", "start"), size<&DequantizeDesc::inputs>("inputs", inputs)},
     .cpu = {"kernels/dequantize/op.h", "dequantizeNf4(#desc, codes, absmax, scales, mean, w)"},
     .cuda = {"kernels/dequantize/cuda.h", "dequantizeNf4(#desc, start, codes, absmax, scales, mean, w)"}},
};

}  // namespace hyc::kernels::described::dequantize

#endif  // HYC_KERNELS_DEQUANTIZE_DESCRIPTION_H_
