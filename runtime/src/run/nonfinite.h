// A run that has diverged: it ends where the loss or the gradient norm is no number any more, and weights that hold
// such values take no other's place. All ranks hold the same loss and norm, so that all of them end.
#ifndef HYCRT_SRC_RUN_NONFINITE_H_
#define HYCRT_SRC_RUN_NONFINITE_H_

#include <cstdint>
#include <string>

#include "hycrt/context.h"
#include "hycrt/status.h"
#include "hycrt/step_report.h"

namespace hycrt {

// Of a step whose update happened, or of a batch of an evaluation; `counted`: tokens that its loss is the mean over.
Status checkFiniteStep(const StepRecord& record, int64_t counted, const Program& program);

// Before any rank writes: the parameters that were trained, as this rank holds them.
Status checkFiniteWeights(const Context& ctx, const std::string& target);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_NONFINITE_H_
