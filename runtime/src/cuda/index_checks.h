// IndexChecks: computed indices that a rank's device compares with their bounds in front of the kernels that use them.
//
// The kernels take an index that lies outside for one that another rank holds: they read and write nothing for it. So
// the host asks when it waits for the device anyway, and ends the run there, before anything of the step is told or
// saved. The surprise: a check of a recorded step is made once, and then stands for all later steps.
#ifndef HYCRT_SRC_CUDA_INDEX_CHECKS_H_
#define HYCRT_SRC_CUDA_INDEX_CHECKS_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "hycrt/context.h"
#include "hycrt/status.h"
#include "kernels/index_check/cuda.h"

namespace hycrt {

class IndexChecks {
 public:
  IndexChecks() = default;
  IndexChecks(const IndexChecks&) = delete;
  ~IndexChecks();
  Status open();

  // On the one stream of all checks. `ctx` and `op` are there at each take() to come.
  void add(const Context& ctx, const char* op, const int64_t* indices, int64_t count, int64_t bound, int64_t uncounted,
           cudaStream_t stream);

  // Checks from here on are part of a recorded step; nothing is under way.
  void beginRecording() { made_.resize(recorded_); }
  void endRecording(bool failed);

  // When the device is done: the first of the checks since the last time that found an index outside.
  Status take();

 private:
  struct Made {
    const Context* ctx;
    const char* op;
    int64_t count, bound;
  };
  std::vector<Made> made_;  // those of the recorded step, then those since take()
  size_t recorded_ = 0;
  hyc::kernels::cuda::BadIndex* found_ = nullptr;  // pinned
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CUDA_INDEX_CHECKS_H_
