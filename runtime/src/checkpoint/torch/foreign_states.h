// States in files of torch.save, as PyTorch's distributed checkpoint and DeepSpeed's universal one keep them: where the
// parts of each tensor are. Reading the tables of such a folder reads no tensor yet.
#ifndef HYCRT_SRC_CHECKPOINT_TORCH_FOREIGN_STATES_H_
#define HYCRT_SRC_CHECKPOINT_TORCH_FOREIGN_STATES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/box.h"
#include "checkpoint/torch/torch_tensor.h"
#include "hycrt/status.h"
#include "hycrt/types.h"

namespace hycrt {

// A rectangle of a tensor, and the archive that has it.
struct ForeignPart {
  Box box;
  std::string folder, file;
  int64_t begin = 0, bytes = 0;  // of the file
};

struct ForeignTensor {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<ForeignPart> parts;
};

struct ForeignStates {
  std::string kind;  // as errors call it
  std::string folder;
  std::string key;                               // of the tensor in an archive's dict; empty: the archive is a tensor
  std::map<std::string, ForeignTensor> tensors;  // by the names of checkpoints
  std::map<int64_t, std::string> updates;        // how many there were, and a parameter that tells so
  int64_t leftOut = 0;                           // entries that are no tensors
  std::set<std::string> spared;                  // of ForeignNames::without, those that name something
};

// What names in a checkpoint of PyTorch's begin with, as the state dict that was saved has them.
struct ForeignNames {
  std::string weights;                   // "model."
  std::string optimizer = "optimizer.";  // in front of "state.NAME.exp_avg"
  std::vector<std::string> without;      // names, as checkpoints have them, that are not taken: a parameter's, with
                                         // what the optimizer keeps of it, or a tensor's

  // Whether a tensor is not taken; notes why.
  bool leavesOut(const std::string& tensor, ForeignStates* states) const;
};

// A folder with .metadata.
Result<ForeignStates> openDistributedCheckpoint(const std::string& folder, const ForeignNames& names);
// A folder with zero/NAME/fp32.pt.
Result<ForeignStates> openUniversalCheckpoint(const std::string& folder, const ForeignNames& names);
// Whether all that names leave out is there; an error with the nearest.
Status checkSpared(const ForeignNames& names, const ForeignStates& states);
// Whichever the folder is; what it is otherwise is refused with what converts it.
Result<ForeignStates> openForeignStates(const std::string& folder, const ForeignNames& names);

// The whole tensor, every number compared with what was told.
Status readForeignTensor(const ForeignStates& states, const std::string& name, std::vector<std::byte>* whole);

// The count of updates that a file tells, of one number. `label` begins errors.
Result<int64_t> updatesIn(DType dtype, const std::vector<std::byte>& bytes, const std::string& label);
Result<int64_t> wholeUpdates(double number, const std::string& label);

// Whether a tensor can be called so: UTF-8 without control characters, of some length.
bool isTensorName(const std::string& name);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_TORCH_FOREIGN_STATES_H_
