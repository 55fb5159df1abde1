// Checkpoints in the forms of others that keep states in files of torch.save: all of a training's states, as whole
// tensors, in the same bytes whatever layout wrote the checkpoint.
#ifndef HYCRT_SRC_CHECKPOINT_TORCH_EXPORT_TORCH_H_
#define HYCRT_SRC_CHECKPOINT_TORCH_EXPORT_TORCH_H_

#include <string>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/torch/foreign_states.h"
#include "hycrt/status.h"

namespace hycrt {

// PyTorch's: .metadata and one file, which torch.distributed.checkpoint loads.
Status exportDistributed(const Checkpoint& checkpoint, const std::string& target, const ForeignNames& names);
// DeepSpeed's: zero/NAME/fp32.pt, exp_avg.pt, exp_avg_sq.pt and step.pt, the number of updates, as the optimizer that
// is to read it has it: DeepSpeed's own a number, torch's a tensor.
enum class UpdateCount { kNumber, kTensor };
Status exportUniversal(const Checkpoint& checkpoint, const std::string& target, const ForeignNames& names,
                       UpdateCount count = UpdateCount::kNumber);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_TORCH_EXPORT_TORCH_H_
