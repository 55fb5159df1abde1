// Saving the trained parameters under the target of --save-weights.
#ifndef HYCRT_SRC_RUN_WEIGHTS_FOLDER_H_
#define HYCRT_SRC_RUN_WEIGHTS_FOLDER_H_

#include <string>

#include "hycrt/context.h"
#include "hycrt/status.h"

namespace hycrt {

// Called by all ranks together. `configFile` goes into a folder, too, where it exists.
Status saveWeights(Context& ctx, const std::string& target, const std::string& configFile);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_WEIGHTS_FOLDER_H_
