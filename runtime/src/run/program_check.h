// Whether a program's tables agree with themselves, before any of it is believed: buffers inside arenas, shapes that
// multiply up, indices in range. A contradiction is the compiler's fault, hence an internal error that names the row.
#ifndef HYCRT_SRC_RUN_PROGRAM_CHECK_H_
#define HYCRT_SRC_RUN_PROGRAM_CHECK_H_

#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

Status checkProgram(const Program& program);

// Whether the workspaces that the program has suffice for so many threads.
Status checkThreads(const Program& program, int threads);

// Whether --poison would act.
Status checkPoison(const Program& program, const RunOptions& options);

// Whether the momentum that the schedule cycles stays below 1 over these steps.
Status checkMomentum(const Manifest& manifest, const RunOptions& options);

// Whether --evaluate can do with a program that was compiled to train.
Status checkEvaluation(const Program& program);

// Whether the executable and the folder that it is run from belong together.
Status checkAgainstManifest(const Program& program, const Manifest& manifest);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_PROGRAM_CHECK_H_
