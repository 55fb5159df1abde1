// Sums of squares on GPUs, of many tensors a launch: half a warp a block of 1,024 elements, each lane being one of the
// 16 lanes of op.h.
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/exact_sum/digits.h"
#include "kernels/sum_of_squares/cuda.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = static_cast<int>(kSumOfSquaresLanes);
constexpr int kBlocksAtOnce = kThreads / kLanes;

using Limb = unsigned long long;  // atomics know no signed type; the bits of a sum are the same

constexpr int64_t kBlocksPerChunk = 4 * kBlocksAtOnce;  // of one block of threads

template <typename T>
struct Batch {
  SquaredTensor<T> tensors[kSquaredTensorsAtOnce];
  int firstChunk[kSquaredTensorsAtOnce];
  int count;
};

// Lane `lane` of the block that begins at x, of which `length` elements are there.
template <typename T>
__device__ double sumOfLane(const T *x, int64_t length, int lane) {
  constexpr int kAhead = 16;  // loads under way at once
  constexpr int kTerms = static_cast<int>(kSumOfSquaresBlock) / kLanes;
  double sum = 0;
  for (int term = 0; term < kTerms; term += kAhead) {
    float values[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int at = (term + i) * kLanes + lane;
      values[i] = at < length ? static_cast<float>(x[at]) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const double value = static_cast<double>(values[i]);
      sum = sum + value * value;
    }
  }
  return sum;
}

template <typename T>
__global__ void sumKernel(const __grid_constant__ Batch<T> batch, int64_t *exactSum) {
  __shared__ Limb limbs[kExactSumLimbs];
  for (int i = static_cast<int>(threadIdx.x); i < kExactSumLimbs; i += kThreads) limbs[i] = 0;
  __syncthreads();
  int t = 0;
  while (t + 1 < batch.count && static_cast<int>(blockIdx.x) >= batch.firstChunk[t + 1]) ++t;
  const T *x = batch.tensors[t].x;
  const int64_t n = batch.tensors[t].n;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, group = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t first = (static_cast<int>(blockIdx.x) - batch.firstChunk[t]) * kBlocksPerChunk;
  for (int64_t block = first; block < first + kBlocksPerChunk; block += kBlocksAtOnce) {
    const int64_t begin = (block + group) * kSumOfSquaresBlock;
    double sum = sumOfLane(x + begin, n - begin, lane);
    for (int apart = kLanes / 2; apart > 0; apart /= 2) sum = sum + __shfl_xor_sync(kAllLanes, sum, apart);
    if (lane == 0 && begin < n)
      splitExact(sum, [&](int limb, int64_t term) { atomicAdd(&limbs[limb], static_cast<Limb>(term)); });
  }
  __syncthreads();
  Limb *total = reinterpret_cast<Limb *>(exactSum);
  for (int i = static_cast<int>(threadIdx.x); i < kExactSumLimbs; i += kThreads)
    if (limbs[i]) atomicAdd(total + i, limbs[i]);
}

__global__ void roundKernel(const int64_t *exactSum, double *rounded) { *rounded = roundDigits(exactSum); }

}  // namespace

template <typename T>
void sumOfSquares(Stream stream, const SquaredTensor<T> *tensors, int count, int64_t *exactSum, WriteMode mode) {
  if (mode == WriteMode::kOverwrite) cudaMemsetAsync(exactSum, 0, kExactSumLimbs * sizeof(int64_t), stream);
  for (int first = 0; first < count; first += kSquaredTensorsAtOnce) {
    Batch<T> batch;
    int64_t chunks = 0;
    batch.count = count - first < kSquaredTensorsAtOnce ? count - first : kSquaredTensorsAtOnce;
    for (int i = 0; i < batch.count; ++i) {
      batch.tensors[i] = tensors[first + i];
      batch.firstChunk[i] = static_cast<int>(chunks);
      chunks += (sumOfSquaresBlockCount(tensors[first + i].n) + kBlocksPerChunk - 1) / kBlocksPerChunk;
    }
    const Grid grid{dim3(static_cast<unsigned>(chunks)), dim3(kThreads)};
    kernel(sumKernel<T>).launch(stream, grid, batch, exactSum);
  }
}

void roundExactSum(Stream stream, const int64_t *exactSum, double *rounded) {
  kernel(roundKernel).launch(stream, gridOver(1, 1), exactSum, rounded);
}

template void sumOfSquares<float>(Stream, const SquaredTensor<float> *, int, int64_t *, WriteMode);
template void sumOfSquares<Bf16>(Stream, const SquaredTensor<Bf16> *, int, int64_t *, WriteMode);
template void sumOfSquares<F16>(Stream, const SquaredTensor<F16> *, int, int64_t *, WriteMode);

}  // namespace hyc::kernels::cuda
