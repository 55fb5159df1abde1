// Whole tensors of a checkpoint as one safetensors file: the model's parameters, as --save-weights writes them, or all
// states. What is written is the same whatever layout wrote the checkpoint.
#ifndef HYCRT_SRC_CHECKPOINT_EXPORT_H_
#define HYCRT_SRC_CHECKPOINT_EXPORT_H_

#include <string>

#include "checkpoint/checkpoint_folder.h"
#include "hycrt/status.h"

namespace hycrt {

// `target` is a file whose name ends in .safetensors, or a folder that is not there yet, of which the file is
// model.safetensors, beside a copy of `config` as config.json where one is given. The checkpoint's bytes are verified
// first.
enum class Exported { kWeights, kStates };
Status exportTensors(const Checkpoint& checkpoint, Exported what, const std::string& target, const std::string& config);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_EXPORT_H_
