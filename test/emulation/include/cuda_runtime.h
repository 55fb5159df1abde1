// CUDA on the host, for tests where there is no GPU: the part of CUDA's language and runtime API that hyc's kernels and
// runtime use, so that g++ can read every .cu file and a machine without a device can run it.
//
// A block's threads are coroutines of one thread of the host. Each runs until it needs the others (a barrier, a
// shuffle, a matrix fragment), in ascending or, by HYC_EMULATION_ORDER=descending, in descending order: code that lacks
// a barrier gives other results in one of the two. A barrier that some threads of a block never reach ends the process
// with a message. Copies to shared memory that are asynchronous happen when they are waited for, no sooner.
//
// What this cannot show: races that need another interleaving than these two, memory models, and speed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __grid_constant__

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// ---------------------------------------------------------------------------------------------------- inside kernels

void __syncthreads();
void __syncwarp(unsigned lanes = 0xffffffffu);

namespace emulation {

int lane();
// Leaves 8 bytes for the warp and gives those of `from`; all lanes of a warp call it.
uint64_t exchange(uint64_t value, int from);
// For what a whole warp does together: each lane shows something, which all may look at up to the next barrier.
void pass(const void *mine);
const void *passedBy(int lane);
void warpBarrier();
// Asynchronous copies, by the thread that asks for them: applied by waitCopies.
void copyLater(void *to, const void *from, int bytes, int validBytes);
void commitCopies();
void waitCopies(int mostGroupsLeft);

template <typename T> T exchangeValue(T value, int from) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(bits, from);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

} // namespace emulation

template <typename T> T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulation::exchangeValue(value, emulation::lane() ^ mask);
}
template <typename T> T __shfl_sync(unsigned, T value, int from) { return emulation::exchangeValue(value, from & 31); }
template <typename T> T __shfl_down_sync(unsigned, T value, int by) {
  const int from = emulation::lane() + by;
  return emulation::exchangeValue(value, from < 32 ? from : emulation::lane());
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  unsigned result = 0;
  for (int from = 0; from < 32; ++from)
    result |= (emulation::exchangeValue(predicate != 0, from) ? 1u : 0u) << from;
  return result;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __frsqrt_rn(float x) { return 1.0f / std::sqrt(x); }
inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long value) {
  const unsigned long long before = *at;
  *at += value;
  return before;
}
inline int atomicMin(int *at, int value) {
  const int before = *at;
  if (value < before)
    *at = value;
  return before;
}

inline unsigned atomicCAS(unsigned *at, unsigned expected, unsigned value) {
  const unsigned before = *at;
  if (before == expected)
    *at = value;
  return before;
}
inline unsigned atomicExch(unsigned *at, unsigned value) {
  const unsigned before = *at;
  *at = value;
  return before;
}
inline void __threadfence() {}

// ------------------------------------------------------------------------------------------------------- runtime API

struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st *;
using cudaEvent_t = CUevent_st *;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNotReady = 600,
  cudaErrorHostMemoryAlreadyRegistered = 712,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum : unsigned {
  cudaStreamNonBlocking = 1,
  cudaEventDefault = 0,
  cudaEventDisableTiming = 2,
  cudaHostRegisterDefault = 0,
  cudaHostRegisterMapped = 2
};

struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor, multiProcessorCount;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  void *attrs = nullptr;
  unsigned numAttrs = 0;
};

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76 };
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device);
cudaError_t cudaMemGetInfo(size_t *free, size_t *total);
cudaError_t cudaMalloc(void **pointer, size_t bytes);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaMallocHost(void **pointer, size_t bytes);
cudaError_t cudaFreeHost(void *pointer);
cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *pointer);
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemset(void *to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaDeviceSynchronize();

struct CUgraph_st;
struct CUgraphExec_st;
using cudaGraph_t = CUgraph_st *;
using cudaGraphExec_t = CUgraphExec_st *;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute attribute, int value);

namespace emulation {
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
void runGrid(const cudaLaunchConfig_t &config, const std::function<void()> &thread);
// What the device would say of a grid, by the limits of its compute capability.
cudaError_t checkLaunch(const void *kernel, const cudaLaunchConfig_t &config);
} // namespace emulation

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                               Arguments &&...arguments) {
  if (const cudaError_t error = emulation::checkLaunch(reinterpret_cast<const void *>(kernel), *config);
      error != cudaSuccess)
    return error;
  const std::tuple<Parameters...> values(arguments...);
  return emulation::enqueue(config->stream, [values, kernel, config = *config] {
    emulation::runGrid(config, [&] { std::apply(kernel, values); });
  });
}
