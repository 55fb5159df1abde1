// The runtime API of a device that is the host: memory is memory, and whatever is put on a stream is done at once.
//
// What device it is can be told by the environment, so that what a program says of unfit devices can be tested:
//
//   HYC_EMULATION_DEVICES     how many there are [1]
//   HYC_EMULATION_MEMORY      bytes of each [4 GiB], of which this process's context takes kContextBytes
//   HYC_EMULATION_CAPABILITY  as in 90 [90]
//   HYC_EMULATION_GRAPHS      "off": no step can be recorded [on]
//   HYC_EMULATION_DRIVER      the CUDA version of the driver, as in 13000 [13000]; 0: there is none
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cuda_runtime.h"

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};
struct CUevent_st {
  std::chrono::steady_clock::time_point at;
};

namespace {

constexpr int kRuntimeVersion = 13000;
constexpr size_t kContextBytes = size_t{3} << 20, kGranularity = size_t{64} << 10;

long long numberOf(const char *variable, long long otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}
size_t deviceBytes() { return static_cast<size_t>(numberOf("HYC_EMULATION_MEMORY", 4ll << 30)); }
int driverVersion() { return static_cast<int>(numberOf("HYC_EMULATION_DRIVER", kRuntimeVersion)); }

// What is put on streams while a step is recorded, in its order: events between streams need no more than that.
using Work = std::vector<std::function<void()>>;
std::unique_ptr<Work> recorded; // null: nothing is being recorded
bool wasBroken = false;         // by a call that cannot be part of a recorded step

cudaError_t synchronous() {
  if (!recorded)
    return cudaSuccess;
  wasBroken = true;
  return cudaErrorStreamCaptureUnsupported;
}

std::unordered_map<void *, size_t> allocations; // sizes, in whole granules
size_t used = kContextBytes;

void *allocate(size_t bytes) {
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  // What nobody has written is no number.
  if (memory)
    std::memset(memory, 0xFF, bytes);
  return memory;
}

} // namespace

const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaSuccess:
    return "no error";
  case cudaErrorMemoryAllocation:
    return "out of memory";
  case cudaErrorInsufficientDriver:
    return "CUDA driver version is insufficient for CUDA runtime version";
  case cudaErrorNoDevice:
    return "no CUDA-capable device is detected";
  case cudaErrorNotReady:
    return "device not ready";
  case cudaErrorStreamCaptureUnsupported:
    return "operation not permitted when stream is capturing";
  }
  return "an error";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { return *version = driverVersion(), cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = kRuntimeVersion, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *count) {
  *count = 0;
  if (driverVersion() / 1000 < kRuntimeVersion / 1000)
    return cudaErrorInsufficientDriver;
  *count = static_cast<int>(numberOf("HYC_EMULATION_DEVICES", 1));
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  const int capability = static_cast<int>(numberOf("HYC_EMULATION_CAPABILITY", 90));
  *properties = {"the host, as a device", deviceBytes(), capability / 10, capability % 10, 4};
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  *total = deviceBytes();
  *free = *total - std::min(*total, used);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  const size_t granules = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  *pointer = used + granules <= deviceBytes() ? allocate(bytes) : nullptr;
  if (!*pointer)
    return cudaErrorMemoryAllocation;
  allocations[*pointer] = granules;
  used += granules;
  return cudaSuccess;
}
cudaError_t cudaFree(void *pointer) {
  if (const auto found = allocations.find(pointer); found != allocations.end()) {
    used -= found->second;
    allocations.erase(found);
  }
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
  *pointer = allocate(bytes);
  return *pointer ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void *pointer) { return std::free(pointer), cudaSuccess; }
cudaError_t cudaHostRegister(void *, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void *) { return cudaSuccess; }
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) { return *device = host, cudaSuccess; }
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
  std::memmove(to, from, bytes);
  return synchronous();
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  emulation::enqueue([=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return std::memset(to, value, bytes), synchronous(); }
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
  emulation::enqueue([=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { return *stream = nullptr, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return synchronous(); }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return *event = new CUevent_st{}, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return event->at = std::chrono::steady_clock::now(), cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return synchronous(); }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return synchronous(); }

void emulation::enqueue(std::function<void()> work) {
  if (recorded)
    recorded->push_back(std::move(work));
  else
    work();
}
// HYC_EMULATION_GRAPHS=off: a device on which nothing can be recorded.
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  const char *text = std::getenv("HYC_EMULATION_GRAPHS");
  wasBroken = text && std::strcmp(text, "off") == 0;
  recorded = std::make_unique<Work>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
  const std::unique_ptr<Work> work = std::move(recorded);
  *graph = nullptr;
  if (!work || wasBroken)
    return cudaErrorStreamCaptureUnsupported;
  *graph = new CUgraph_st{std::move(*work)};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  for (const std::function<void()> &work : executable->work)
    work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return delete executable, cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
