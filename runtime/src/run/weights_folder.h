// Saving the trained parameters under the target of --save-weights.
#ifndef HYCRT_SRC_RUN_WEIGHTS_FOLDER_H_
#define HYCRT_SRC_RUN_WEIGHTS_FOLDER_H_

#include <string>

#include "base/file_lock.h"
#include "hycrt/context.h"
#include "hycrt/status.h"

namespace hycrt {

// Keeps other runs from saving under `target` for as long as it is held. kUnavailable names who holds it.
Result<FileLock> lockWeightsTarget(const std::string& target);

// Called by all ranks together. `run` is the run's name, the same in all of them. `configFile` goes into a folder, too,
// where it exists. What is whole but cannot be given its name stays, and the error says where.
Status saveWeights(Context& ctx, const std::string& target, const std::string& run, const std::string& configFile);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_WEIGHTS_FOLDER_H_
