// What programs know of reductions: generated kernels call them, so that they have no row here. Their scratch memory on
// GPUs is reducePartialCount (op.h).
#ifndef HYC_KERNELS_REDUCE_DESCRIPTION_H_
#define HYC_KERNELS_REDUCE_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/reduce/op.h"

namespace hyc::kernels::described::reduce {

inline constexpr View<KernelDescription> kKernels;

}  // namespace hyc::kernels::described::reduce

#endif  // HYC_KERNELS_REDUCE_DESCRIPTION_H_
