// MemoryFit: whether a job fits --device-memory or the machine's, and what to change where it does not.
//
// Changes keep the global batch (micro-batch × grad-accum × dp) and, where that suffices, the number of ranks. Each one
// is planned anew before it is proposed, so that what the error names does fit; estimates of time only say in which
// order.
#ifndef HYC_LIB_DRIVER_FIT_MEMORYFIT_H
#define HYC_LIB_DRIVER_FIT_MEMORYFIT_H

#include "Fit/LayoutChoice.h"

namespace hyc {

/// An error (65) that names the peak of the rank that needs most, the largest tensors alive there, and the fastest
/// changes that fit; success where every rank fits, or nobody says a limit. `microBatch` is what the model or the
/// options have settled on.
llvm::Error checkFit(const JobAccount &job, const CompileOptions &options, int64_t microBatch,
                     const SearchMeans &means);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_MEMORYFIT_H
