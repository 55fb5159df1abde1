// What --save-weights names: a safetensors file where the name ends in ".safetensors", otherwise a folder as
// transformers loads it, model.safetensors and, where the compiled model came with one, its config.json; of an adapter
// as peft loads it, adapter_model.safetensors and adapter_config.json.
//
// Both are whole or not there: what is being written has a name that is the run's own, TARGET.RUN.partial, which is
// made exclusively, until it is whole and synced. Then a folder of an earlier run is exchanged for the new one in a
// single step, and goes afterwards; a folder that holds anything else is refused, and so is a link. Who saves holds a
// lock beside the target, so that two runs that were given one target do not both train for it.
#ifndef HYCRT_SAVED_WEIGHTS_H_
#define HYCRT_SAVED_WEIGHTS_H_

#include <string>
#include <vector>

#include "hycrt/options.h"
#include "hycrt/status.h"

namespace hycrt {

bool isWeightsFile(const std::string& target);

// The files that a run would leave under `target`: none of them may be something that it reads.
std::vector<std::string> filesOfWeights(const std::string& target);

// Before anything is started: whether the target can be made. A folder of an adapter takes no other weights' place, nor
// they its.
Status checkWeightsTarget(const std::string& target, bool ofAdapter = false);

// What the failed run of this name has left of what it was making: its own partial files, and nobody else's.
void removePartialOutputs(const RunOptions& options, const std::string& run);

}  // namespace hycrt

#endif  // HYCRT_SAVED_WEIGHTS_H_
