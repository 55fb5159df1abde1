// Whole tensors of a checkpoint as one safetensors file: the model's parameters, as --save-weights writes them, or all
// states. What is written is the same whatever layout wrote the checkpoint.
#ifndef HYCRT_SRC_CHECKPOINT_EXPORT_H_
#define HYCRT_SRC_CHECKPOINT_EXPORT_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_folder.h"
#include "hycrt/status.h"

namespace hycrt {

// Of a checkpoint of adapters kWeights are the adapters alone, as peft has them (adapter_model.safetensors beside its
// adapter_config.json), and kMerged the model's weights with the adapters' products added. A checkpoint that does not
// tell what its adapters are gives only its states.
//
// `target` is a file whose name ends in .safetensors, or a folder that is not there yet, of which the file is
// model.safetensors, beside a copy of `config` as config.json where one is given. The checkpoint's bytes are verified
// first.
enum class Exported { kWeights, kMerged, kStates };
Status exportTensors(const Checkpoint& checkpoint, Exported what, const std::string& target, const std::string& config);

// What every export does: verifies the checkpoint, lets `write` fill a folder aside, and gives it the name `target`,
// which nothing has. Of one that fails nothing is left.
Status exportFolder(const Checkpoint& checkpoint, const std::string& target,
                    const std::function<Status(const std::string&)>& write);

// The slices of a tensor put together.
Status readWholeTensor(const Checkpoint& checkpoint, const CheckpointTensor& tensor, std::vector<std::byte>* whole);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_EXPORT_H_
