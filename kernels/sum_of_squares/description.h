// What programs know of sums of squares. On GPUs those of many tensors are one call, which its printer spells.
#ifndef HYC_KERNELS_SUM_OF_SQUARES_DESCRIPTION_H_
#define HYC_KERNELS_SUM_OF_SQUARES_DESCRIPTION_H_

#include "kernels/description.h"

namespace hyc::kernels::described::sum_of_squares {

inline constexpr KernelDescription kKernels[] = {
    {.name = "sum_of_squares",
     .outs = {{"sum", Role::kByMode}},
     .ins = {{"x"}},
     .cpu = {"kernels/sum_of_squares/op.h", "sumOfSquares(x, #count(x), sum, #mode)"},
     .cuda = {"kernels/sum_of_squares/cuda.h"}},
};

}  // namespace hyc::kernels::described::sum_of_squares

#endif  // HYC_KERNELS_SUM_OF_SQUARES_DESCRIPTION_H_
