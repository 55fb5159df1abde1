// Saving the trained parameters under the target of --save-weights.
#ifndef HYCRT_SRC_RUN_WEIGHTS_FOLDER_H_
#define HYCRT_SRC_RUN_WEIGHTS_FOLDER_H_

#include <string>

#include "base/file_lock.h"
#include "hycrt/context.h"
#include "hycrt/manifest.h"
#include "hycrt/status.h"

namespace hycrt {

// Keeps other runs from saving under `target` for as long as it is held. kUnavailable names who holds it.
Result<FileLock> lockWeightsTarget(const std::string& target);

struct WeightsToSave {
  std::string run;          // the run's name, the same in all ranks
  std::string modelFolder;  // whose config.json, or adapter_config.json, goes into a folder, too, where it exists
  const Adapter* adapter = nullptr;  // what the programs train
  bool merges = false;               // the adapter goes into the weights, and not by itself
};

// Called by all ranks together. What is whole but cannot be given its name stays, and the error says where.
Status saveWeights(Context& ctx, const std::string& target, const WeightsToSave& what);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_WEIGHTS_FOLDER_H_
