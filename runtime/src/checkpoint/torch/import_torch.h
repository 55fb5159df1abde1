// A checkpoint of hyc-run's made of what PyTorch or DeepSpeed has saved: a run resumes it as it does its own.
#ifndef HYCRT_SRC_CHECKPOINT_TORCH_IMPORT_TORCH_H_
#define HYCRT_SRC_CHECKPOINT_TORCH_IMPORT_TORCH_H_

#include <cstdint>
#include <string>

#include "checkpoint/torch/foreign_states.h"
#include "hycrt/options.h"
#include "hycrt/status.h"

namespace hycrt {

// What the states do not tell of a training.
struct ImportOptions {
  ForeignNames names;
  int64_t step = 0;     // 0: the number of updates that the states tell
  int64_t samples = 0;  // that were read; the data goes on behind them
  uint64_t seed = RunOptions().seed;
};

struct Imported {
  std::string folder;  // of the checkpoint
  std::string kind;    // of what was read
  int64_t tensors = 0, leftOut = 0;
};

// Makes DIRECTORY/step-N, which is not there yet.
Result<Imported> importCheckpoint(const std::string& source, const std::string& directory,
                                  const ImportOptions& options);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_TORCH_IMPORT_TORCH_H_
