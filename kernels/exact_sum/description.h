// What programs know of exact sums, which kernels/sum_of_squares makes.
#ifndef HYC_KERNELS_EXACT_SUM_DESCRIPTION_H_
#define HYC_KERNELS_EXACT_SUM_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/exact_sum/op.h"

namespace hyc::kernels::described::exact_sum {

inline constexpr KernelDescription kKernels[] = {
    {.name = "round_sum",
     .outs = {{"y"}},
     .ins = {{"sum"}},
     .cpu = {"kernels/exact_sum/op.h", "*y = roundExactSum(sum)"},
     .cuda = {"kernels/sum_of_squares/cuda.h", "roundExactSum(sum, y)"}},
};

}  // namespace hyc::kernels::described::exact_sum

#endif  // HYC_KERNELS_EXACT_SUM_DESCRIPTION_H_
