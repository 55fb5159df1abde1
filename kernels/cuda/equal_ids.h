// Which of a list of ids are equal, found by one block without sorting or atomics: whoever comes first with an id does
// the work of all that have it, in their order.
#ifndef HYC_KERNELS_CUDA_EQUAL_IDS_H_
#define HYC_KERNELS_CUDA_EQUAL_IDS_H_

#include "kernels/cuda/device.h"

namespace hyc::kernels::cuda {

// Whether an id before `number` equals ids[number]; the same in all of the block's kThreads threads, which all call it.
template <int kThreads>
__device__ bool isRepeated(const int64_t *ids, int64_t number) {
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  for (int64_t begin = 0; begin < number; begin += kThreads) {
    const int64_t t = begin + threadIdx.x;
    if (t < number && ids[t] == ids[number]) found = 1;  // whoever writes, writes the same
    __syncthreads();
    const bool isFound = found != 0;
    __syncthreads();
    if (isFound) return true;
  }
  return false;
}

// Writes which of ids[begin … begin + kThreads) are `id`, ascending, to list (shared, kThreads); gives how many.
template <int kThreads>
__device__ int collectEqual(const int64_t *ids, int64_t end, int64_t begin, int64_t id, int64_t *list) {
  __shared__ int counts[kThreads / kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t t = begin + threadIdx.x;
  const bool isOne = t < end && ids[t] == id;
  const unsigned ones = __ballot_sync(kAllLanes, isOne);
  __syncthreads();  // the list of before has been read
  if (lane == 0) counts[warp] = __popc(ones);
  __syncthreads();
  int before = 0, total = 0;
  for (int w = 0; w < kThreads / kWarp; ++w) {
    if (w < warp) before += counts[w];
    total += counts[w];
  }
  if (isOne) list[before + __popc(ones & ((1u << lane) - 1))] = t;
  __syncthreads();
  return total;
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_EQUAL_IDS_H_
