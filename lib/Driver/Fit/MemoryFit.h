// MemoryFit: whether a job fits --device-memory, and what to change where it does not.
//
// Changes keep the global batch (micro-batch × grad-accum × dp) and, where that suffices, the number of ranks. Each one
// is planned anew before it is proposed, so that what the error names does fit; the costs only say in which order.
#ifndef HYC_LIB_DRIVER_FIT_MEMORYFIT_H
#define HYC_LIB_DRIVER_FIT_MEMORYFIT_H

#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Driver/CompileListener.h"
#include "hyc/Plan/CompileOptions.h"
#include "llvm/Support/Error.h"

#include <functional>

namespace hyc {

/// Plans under other options and gives the account, or nothing where they cannot be planned.
using Replan = std::function<std::optional<JobAccount>(const CompileOptions &)>;

/// An error (65) that names the peak of the rank that needs most, the largest tensors alive there, and the cheapest
/// changes that fit; success where every rank fits, or nothing was asked. `microBatch` is what the model or the options
/// have settled on.
llvm::Error checkFit(const JobAccount &job, const CompileOptions &options, int64_t microBatch, const Replan &replan,
                     const CompileListener &listener);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_MEMORYFIT_H
