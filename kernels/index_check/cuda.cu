// One pass over the indices. Each block looks for its lowest bad place; blocks that have one tell it in turn.
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/index_check/cuda.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// The least of a block's values, in its first thread. All threads call it.
__device__ inline int64_t blockLeast(int64_t value, int64_t *scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    const int64_t other = __shfl_xor_sync(kAllLanes, value, apart);
    value = other < value ? other : value;
  }
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  for (int w = 0; w < kThreads / kWarp; ++w) value = scratch[w] < value ? scratch[w] : value;
  return value;
}

// One thread of a block calls it, so that whoever has the lock goes on while others wait for it.
__device__ void tell(const IndexCheck &check, int64_t place, BadIndex *found) {
  while (atomicCAS(&found->lock, 0u, 1u) != 0u) {
  }
  __threadfence();
  volatile BadIndex *const told = found;
  // Of earlier checks, whose kernels are over, the first one's word stays.
  if (told->check == 0 || (told->check == check.number && place < told->place)) {
    told->check = check.number;
    told->place = place;
    told->index = check.indices[place];
  }
  __threadfence();
  atomicExch(&found->lock, 0u);
}

__global__ void checkIndicesKernel(IndexCheck check, BadIndex *found) {
  __shared__ int64_t scratch[kThreads / kWarp];
  int64_t place = check.count;
  forEach(check.count, [&](int64_t i) {
    const int64_t index = check.indices[i];
    const bool isExcepted = index == check.uncounted && check.bound > 0;
    if ((index < 0 || index >= check.bound) && !isExcepted && i < place) place = i;
  });
  place = blockLeast(place, scratch);
  if (threadIdx.x == 0 && place < check.count) tell(check, place, found);
}

}  // namespace

void checkIndices(Stream stream, const IndexCheck &check, BadIndex *found) {
  if (check.count == 0) return;
  kernel(checkIndicesKernel).launch(stream, gridOver(check.count, kThreads), check, found);
}

}  // namespace hyc::kernels::cuda
