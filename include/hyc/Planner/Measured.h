// Measured: a machine's rates as a run has had them, from the profile.json that hyc-run --profile writes.
//
// What the calls that products decide took, over what they should have taken on the machine as it is described, scales
// the rate of products; so do those that memory decides the memory's, and exchanges, where nothing hides them, the
// links'. Ranks that computed at other speeds than others of their stage become kinds of ranks, by which stages are cut
// and a batch is shared.
//
// The surprise: only ratios are taken up, of the machine for which the programs were compiled. A machine that was
// described wrongly in the same way for all kernels of a kind is right afterwards; one kernel that is slower than
// others of its kind is not seen.
#ifndef HYC_PLANNER_MEASURED_H
#define HYC_PLANNER_MEASURED_H

#include "hyc/Analysis/MachineRates.h"
#include "llvm/Support/Error.h"

#include <string>

namespace hyc {

/// `rates`, as the profile at `path` corrects them. Errors (65, or 74 where the file cannot be read) name line and
/// column; one of 65 tells where the profile is of programs for another machine.
llvm::Expected<MachineRates> takeMeasured(const std::string &path, MachineRates rates);

} // namespace hyc

#endif // HYC_PLANNER_MEASURED_H
