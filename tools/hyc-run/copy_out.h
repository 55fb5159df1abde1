// --copy-out: the compiled folder goes to the hosts that lack it, to each at once, before ranks are started there.
// Models and data stay where they are: they may be large, and lie outside of what hyc makes.
#ifndef HYC_RUN_COPY_OUT_H_
#define HYC_RUN_COPY_OUT_H_

#include <vector>

#include "hostfile.h"
#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "hycrt/status.h"
#include "job.h"

namespace hycrun {

// Status 0 where every host has it; else why the job ends.
hycrt::Result<RunEnd> copyOut(const hycrt::Manifest& manifest, const std::vector<Share>& shares,
                              const hycrt::RunOptions& options, Signals& signals, Report& report);

}  // namespace hycrun

#endif  // HYC_RUN_COPY_OUT_H_
