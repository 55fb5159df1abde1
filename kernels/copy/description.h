// What programs know of copies, fills and sums of elements. None has a function of its own: their printers choose among
// several, or write out a loop or an expression.
#ifndef HYC_KERNELS_COPY_DESCRIPTION_H_
#define HYC_KERNELS_COPY_DESCRIPTION_H_

#include "kernels/description.h"

namespace hyc::kernels::described::copy {

inline constexpr KernelDescription kKernels[] = {
    {.name = "strided_copy", .outs = {{"y"}}, .ins = {{"x"}}, .isViewInFrameworks = true},  // equal shapes, any strides
    {.name = "accumulate", .outs = {{"to", Role::kByMode}}, .ins = {{"from"}}},             // dense
    {.name = "round", .outs = {{"to"}}, .ins = {{"from"}}, .isByElement = true},            // to the result's type
    {.name = "fill", .outs = {{"y"}}},                                                      // {value}
    {.name = "constant", .outs = {{"y"}}},                                                  // {values}
    {.name = "poison", .outs = {{"y"}}},  // the end of a buffer's life: under hyc-run --poison nothing of it is left
};

}  // namespace hyc::kernels::described::copy

#endif  // HYC_KERNELS_COPY_DESCRIPTION_H_
