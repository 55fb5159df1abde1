// Counters that a device moves on as it comes to places in its stream, in memory of the host that is pinned: the host
// sees how far the device is without asking it. Nobody else writes them while the stream runs.
#ifndef HYC_KERNELS_COUNTER_CUDA_H_
#define HYC_KERNELS_COUNTER_CUDA_H_

#include <cstdint>

#include "kernels/cuda/stream.h"

namespace hyc::kernels::cuda {

constexpr int kMostCounters = 16;

struct Counters {
  uint64_t *at[kMostCounters];
  int count = 0;
};

// Adds 1 to each.
void countUp(Stream stream, const Counters &counters);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_COUNTER_CUDA_H_
