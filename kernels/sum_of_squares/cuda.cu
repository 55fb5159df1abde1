// Sums of squares on GPUs: half a warp a block of 1,024 elements, each lane being one of the 16 lanes of op.h.
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

template <typename T>
__global__ void sumKernel(const T *x, int64_t n, int64_t *exactSum) {
  __shared__ Limb limbs[kExactSumLimbs];
  for (int i = static_cast<int>(threadIdx.x); i < kExactSumLimbs; i += kThreads) limbs[i] = 0;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % kLanes, group = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t blocks = sumOfSquaresBlockCount(n);
  for (int64_t first = int64_t{blockIdx.x} * kBlocksAtOnce; first < blocks;
       first += int64_t{gridDim.x} * kBlocksAtOnce) {
    const int64_t begin = (first + group) * kSumOfSquaresBlock;
    double sum = 0;
    for (int64_t i = lane; i < kSumOfSquaresBlock; i += kLanes) {
      const double value = begin + i < n ? static_cast<double>(static_cast<float>(x[begin + i])) : 0.0;
      sum = sum + value * value;
    }
    for (int apart = kLanes / 2; apart > 0; apart /= 2) sum = sum + __shfl_xor_sync(kAllLanes, sum, apart);
    if (lane == 0 && begin < n)
      splitExact(sum, [&](int limb, int64_t term) { atomicAdd(&limbs[limb], static_cast<Limb>(term)); });
  }
  __syncthreads();
  Limb *total = reinterpret_cast<Limb *>(exactSum);
  for (int i = static_cast<int>(threadIdx.x); i < kExactSumLimbs; i += kThreads)
    if (limbs[i]) atomicAdd(total + i, limbs[i]);
}

__global__ void carryKernel(int64_t *exactSum) { moveCarries(exactSum); }

__global__ void roundKernel(const int64_t *exactSum, double *rounded) { *rounded = roundDigits(exactSum); }

}  // namespace

template <typename T>
void sumOfSquares(Stream stream, const T *x, int64_t n, int64_t *exactSum, WriteMode mode) {
  if (mode == WriteMode::kOverwrite) cudaMemsetAsync(exactSum, 0, kExactSumLimbs * sizeof(int64_t), stream);
  if (n <= 0) return;
  const int64_t blocks = (sumOfSquaresBlockCount(n) + kBlocksAtOnce - 1) / kBlocksAtOnce;
  kernel(sumKernel<T>).launch(stream, gridOver(blocks * kThreads, kThreads, 1024), x, n, exactSum);
  kernel(carryKernel).launch(stream, gridOver(1, 1), exactSum);
}

void roundExactSum(Stream stream, const int64_t *exactSum, double *rounded) {
  kernel(roundKernel).launch(stream, gridOver(1, 1), exactSum, rounded);
}

template void sumOfSquares<float>(Stream, const float *, int64_t, int64_t *, WriteMode);
template void sumOfSquares<Bf16>(Stream, const Bf16 *, int64_t, int64_t *, WriteMode);
template void sumOfSquares<F16>(Stream, const F16 *, int64_t, int64_t *, WriteMode);

}  // namespace hyc::kernels::cuda
