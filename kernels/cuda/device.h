// What kernels for GPUs share: packs of elements that move as one access, and sums with a fixed tree.
#ifndef HYC_KERNELS_CUDA_DEVICE_H_
#define HYC_KERNELS_CUDA_DEVICE_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace hyc::kernels::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kMostWarps = 32;  // of a block

// n elements that are loaded and stored together; their address is a multiple of their size.
template <typename T, int n>
struct alignas(sizeof(T) * n) Pack {
  T at[n];
};
// As many as one access of 16 bytes moves.
template <typename T>
constexpr int kPackSize = static_cast<int>(16 / sizeof(T));

template <int n, typename T>
__device__ inline Pack<T, n> loadPack(const T *from) {
  return *reinterpret_cast<const Pack<T, n> *>(from);
}
template <typename T, int n>
__device__ inline void storePack(T *to, const Pack<T, n> &pack) {
  *reinterpret_cast<Pack<T, n> *>(to) = pack;
}

// Whether rows of `elements` at these addresses can be walked in packs of 16 bytes. The same for all of a grid.
template <typename... T>
__host__ __device__ inline bool isPackable(int64_t bytesPerRow, const T *...addresses) {
  return ((reinterpret_cast<uintptr_t>(addresses) | ... | static_cast<uintptr_t>(bytesPerRow)) & 15) == 0;
}

// The sum over a warp's lanes, in all of them: lanes 16, 8, 4, 2 and 1 apart are added, and a + b is b + a.
template <typename T>
__device__ inline T warpSum(T value) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2) value = value + __shfl_xor_sync(kAllLanes, value, apart);
  return value;
}
__device__ inline float warpMax(float value) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, value, apart);
    value = other > value || other != other ? other : value;
  }
  return value;
}

// The sum over a block of whole warps, in all threads: warps' sums in their order. `scratch`: shared, kMostWarps. All
// threads call it.
template <typename T>
__device__ inline T blockSum(T value, T *scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  value = warpSum(value);
  __syncthreads();  // whoever used the scratch memory before is done
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  T total = scratch[0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w) total = total + scratch[w];
  return total;
}
__device__ inline float blockMax(float value, float *scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  value = warpMax(value);
  __syncthreads();
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  float most = scratch[0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w)
    most = scratch[w] > most || scratch[w] != scratch[w] ? scratch[w] : most;
  return most;
}

// Dynamic shared memory of the block, as many bytes as the launch says.
#ifdef __CUDACC__
__device__ inline unsigned char *dynamicShared() {
  extern __shared__ __align__(128) unsigned char hycDynamicShared[];
  return hycDynamicShared;
}
#else
unsigned char *dynamicShared();  // test/emulation
#endif

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_DEVICE_H_
