// What programs know of sums of squares.
#ifndef HYC_KERNELS_SUM_OF_SQUARES_DESCRIPTION_H_
#define HYC_KERNELS_SUM_OF_SQUARES_DESCRIPTION_H_

#include "kernels/description.h"

namespace hyc::kernels::described::sum_of_squares {

inline constexpr KernelDescription kKernels[] = {
    {.name = "sum_of_squares",
     .outs = {{"sum", Role::kByMode}},
     .ins = {{"x"}},
     .cpu = {"kernels/sum_of_squares/op.h", "sumOfSquares(x, #count(x), sum, #mode)"},
     .cuda = {"kernels/sum_of_squares/cuda.h"},
     .cudaTable = {.text = "sumOfSquares(#table, sum, #mode)",
                   .rowType = "SquaredTensor",
                   .row = "x, #count(x)",
                   .element = "x",
                   .shown = "x"}},
};

}  // namespace hyc::kernels::described::sum_of_squares

#endif  // HYC_KERNELS_SUM_OF_SQUARES_DESCRIPTION_H_
