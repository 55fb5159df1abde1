// What programs know of running sums.
#ifndef HYC_KERNELS_CUMSUM_DESCRIPTION_H_
#define HYC_KERNELS_CUMSUM_DESCRIPTION_H_

#include "kernels/cumsum/op.h"
#include "kernels/description.h"

namespace hyc::kernels::described::cumsum {

inline size_t dim(const Call &c) { return static_cast<size_t>(c.integer("dim")); }
inline int64_t outer(const Call &c) { return product(c.operand("x").shape.first(dim(c))); }
inline int64_t sizeOfDim(const Call &c) { return c.operand("x").shape[dim(c)]; }
inline int64_t inner(const Call &c) { return product(c.operand("x").shape.from(dim(c) + 1)); }
inline bool isForward(const Call &c) { return !c.flag("reverse"); }
inline bool isInclusive(const Call &c) { return !c.flag("exclusive"); }

inline constexpr KernelDescription kKernels[] = {
    {.name = "cumsum",
     .outs = {{"y"}},
     .ins = {{"x"}},
     .comment = "{x}",
     .fields = {size<&CumSumDesc::outer>("outer", outer), size<&CumSumDesc::size>("size", sizeOfDim),
                size<&CumSumDesc::inner>("inner", inner), flag<&CumSumDesc::reverse>("reverse", "reverse", isForward),
                flag<&CumSumDesc::exclusive>("exclusive", "exclusive", isInclusive)},
     .cpu = {"kernels/cumsum/op.h", "cumSum(#desc, x, y)"},
     .cuda = {"kernels/cumsum/cuda.h", "cumSum(#desc, x, y)"}},
};

}  // namespace hyc::kernels::described::cumsum

#endif  // HYC_KERNELS_CUMSUM_DESCRIPTION_H_
