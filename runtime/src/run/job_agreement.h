// What of a rank's manifest, options and data must be the same in all ranks of the job (comm/agreement.h).
#ifndef HYCRT_SRC_RUN_JOB_AGREEMENT_H_
#define HYCRT_SRC_RUN_JOB_AGREEMENT_H_

#include <string>

#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "hycrt/status.h"

namespace hycrt {

// All of the manifest but what is each machine's own (threads, the folder of offload files) or only printed (the
// estimate); every option that hyc-run hands to ranks, unless its row says that it is each rank's own; and of the data,
// where this rank reads it, its size and what its ends hold.
Result<std::string> jobAgreement(const Manifest& manifest, const RunOptions& options, bool readsData);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_JOB_AGREEMENT_H_
