// What programs know of the order of elements.
#ifndef HYC_KERNELS_ARGSORT_DESCRIPTION_H_
#define HYC_KERNELS_ARGSORT_DESCRIPTION_H_

#include "kernels/argsort/op.h"
#include "kernels/description.h"

namespace hyc::kernels::described::argsort {

inline int64_t rows(const Call &c) { return product(c.operand("x").shape.first(c.operand("x").shape.size() - 1)); }
inline int64_t sizeOfRow(const Call &c) { return c.operand("x").last(); }
inline int64_t countOfOrder(const Call &c) { return c.operand("order").last(); }
inline int64_t workspace(const Call &c, int64_t threads) {
  return argSortWorkspaceBytes(sizeOfRow(c), c.operand("x").elementBytes, threads);
}
inline bool isAscending(const Call &c) { return !c.flag("descending"); }

inline constexpr KernelDescription kKernels[] = {
    {.name = "argsort",
     .outs = {{"order"}},
     .ins = {{"x"}},
     .comment = "{x}",
     .fields = {size<&ArgSortDesc::rows>("rows", rows), size<&ArgSortDesc::size>("size", sizeOfRow),
                size<&ArgSortDesc::count>("count", countOfOrder),
                flag<&ArgSortDesc::descending>("descending", "descending", isAscending)},
     .cpu = {"kernels/argsort/op.h", "argSort(#desc, x, order[, #workspace])"},
     .cuda = {"kernels/argsort/cuda.h", "argSort(#desc, x, order)"},
     .workspace = workspace},
};

}  // namespace hyc::kernels::described::argsort

#endif  // HYC_KERNELS_ARGSORT_DESCRIPTION_H_
