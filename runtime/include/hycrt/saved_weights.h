// What --save-weights names: a safetensors file where the name ends in ".safetensors", otherwise a folder as
// transformers loads it, model.safetensors and, where the compiled model came with one, its config.json.
//
// Both are whole or not there: what is being written has the target's name and kPartialSuffix until it is renamed. A
// folder of an earlier run is exchanged for the new one in a single step; a folder that holds anything else is refused.
#ifndef HYCRT_SAVED_WEIGHTS_H_
#define HYCRT_SAVED_WEIGHTS_H_

#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

bool isWeightsFile(const std::string& target);

// The files that a run would leave under `target`: none of them may be something that it reads.
std::vector<std::string> filesOfWeights(const std::string& target);

// Before anything is started: whether the target can be made.
Status checkWeightsTarget(const std::string& target);

// What a failed run leaves of it.
void removePartialWeights(const std::string& target);

}  // namespace hycrt

#endif  // HYCRT_SAVED_WEIGHTS_H_
