// What of a rank's manifest, options and data must be the same in all ranks of the job (comm/agreement.h).
#ifndef HYCRT_SRC_RUN_JOB_AGREEMENT_H_
#define HYCRT_SRC_RUN_JOB_AGREEMENT_H_

#include <string>

#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "hycrt/status.h"

namespace hycrt {

// All of the manifest but what is each machine's own (threads, the folder of offload files) or only printed (the
// estimate); every option that hyc-run hands to ranks, unless its row says that it is each rank's own; of the data,
// where this rank reads it, its size and a sum of it, or of parts all over it where it is large; and on several hosts a
// sum of the rank's program.
Result<std::string> jobAgreement(const Manifest& manifest, const RunOptions& options, const Surroundings& surroundings,
                                 int rank, bool readsData);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_JOB_AGREEMENT_H_
