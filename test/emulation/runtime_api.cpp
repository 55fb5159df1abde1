// The runtime API of a device that is the host: memory is memory. streams.h says when what is put on a stream is done.
//
// What device it is can be told by the environment, so that what a program says of unfit devices can be tested:
//
//   HYC_EMULATION_DEVICES     how many there are [1]
//   HYC_EMULATION_MEMORY      bytes of each [4 GiB], of which this process's context takes kContextBytes
//   HYC_EMULATION_CAPABILITY  as in 90 [90]
//   HYC_EMULATION_GRAPHS      "off": no step can be recorded [on]
//   HYC_EMULATION_DRIVER      the CUDA version of the driver, as in 13000 [13000]; 0: there is none
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "cuda_runtime.h"
#include "streams.h"

namespace {

constexpr int kRuntimeVersion = 13000;
constexpr size_t kContextBytes = size_t{3} << 20, kGranularity = size_t{64} << 10;

long long numberOf(const char *variable, long long otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::atoll(text) : otherwise;
}
size_t deviceBytes() { return static_cast<size_t>(numberOf("HYC_EMULATION_MEMORY", 4ll << 30)); }
int driverVersion() { return static_cast<int>(numberOf("HYC_EMULATION_DRIVER", kRuntimeVersion)); }
int capability() { return static_cast<int>(numberOf("HYC_EMULATION_CAPABILITY", 90)); }

// Pieces of memory by where they begin.
using Pieces = std::map<const char *, size_t>;
Pieces onDevice, pinned;
size_t used = kContextBytes;
cudaError_t lastError = cudaSuccess;
cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess)
    lastError = error;
  return error;
}

bool contains(const Pieces &pieces, const void *address) {
  auto after = pieces.upper_bound(static_cast<const char *>(address));
  if (after == pieces.begin())
    return false;
  --after;
  return static_cast<const char *>(address) < after->first + after->second;
}
// Memory of the host that the device cannot reach by itself.
bool isPageable(const void *address) { return !contains(onDevice, address) && !contains(pinned, address); }

void *allocate(size_t bytes) {
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  // What nobody has written is no number.
  if (memory)
    std::memset(memory, 0xFF, bytes);
  return memory;
}
size_t granules(size_t bytes) { return (bytes + kGranularity - 1) / kGranularity * kGranularity; }

std::map<const void *, size_t> &sharedLimits() {
  static std::map<const void *, size_t> limits; // of dynamic shared memory, by kernel
  return limits;
}
// The CUDA programming guide's table of compute capabilities: the most shared memory of a block.
size_t mostSharedBytes() {
  switch (capability()) {
  case 80:
  case 87:
    return size_t{163} << 10;
  case 86:
  case 89:
    return size_t{99} << 10;
  default:
    return size_t{227} << 10;
  }
}

} // namespace

const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaSuccess:
    return "no error";
  case cudaErrorInvalidValue:
    return "invalid argument";
  case cudaErrorMemoryAllocation:
    return "out of memory";
  case cudaErrorInvalidConfiguration:
    return "invalid configuration argument";
  case cudaErrorInsufficientDriver:
    return "CUDA driver version is insufficient for CUDA runtime version";
  case cudaErrorNoDevice:
    return "no CUDA-capable device is detected";
  case cudaErrorNotReady:
    return "device not ready";
  case cudaErrorHostMemoryAlreadyRegistered:
    return "part or all of the requested memory range is already mapped";
  case cudaErrorStreamCaptureInvalidated:
    return "operation failed due to a previous error during capture";
  case cudaErrorStreamCaptureUnsupported:
    return "operation not permitted when stream is capturing";
  case cudaErrorStreamCaptureUnjoined:
    return "capturing stream has unjoined work";
  case cudaErrorStreamCaptureIsolation:
    return "dependency created on uncaptured work in another stream";
  case cudaErrorCapturedEvent:
    return "operation not permitted on an event last recorded in a capturing stream";
  }
  return "an error";
}
cudaError_t cudaGetLastError() {
  const emulation::Lock lock(emulation::mutex());
  return std::exchange(lastError, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  const emulation::Lock lock(emulation::mutex());
  return lastError;
}
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
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? capability() / 10 : capability() % 10;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  *properties = {"the host, as a device", deviceBytes(), capability() / 10, capability() % 10, 4};
  return cudaSuccess;
}

// ------------------------------------------------------------------------------------------------------------- memory

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  const emulation::Lock lock(emulation::mutex());
  *total = deviceBytes();
  *free = *total - std::min(*total, used);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  const emulation::Lock lock(emulation::mutex());
  emulation::breakRecording();
  *pointer = used + granules(bytes) <= deviceBytes() ? allocate(bytes) : nullptr;
  if (!*pointer)
    return cudaErrorMemoryAllocation;
  onDevice[static_cast<char *>(*pointer)] = bytes;
  used += granules(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void *pointer) {
  const emulation::Lock lock(emulation::mutex());
  emulation::finishAll();
  if (const auto found = onDevice.find(static_cast<char *>(pointer)); found != onDevice.end()) {
    used -= granules(found->second);
    onDevice.erase(found);
  }
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
  const emulation::Lock lock(emulation::mutex());
  emulation::breakRecording();
  *pointer = allocate(bytes);
  if (!*pointer)
    return cudaErrorMemoryAllocation;
  pinned[static_cast<char *>(*pointer)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void *pointer) {
  const emulation::Lock lock(emulation::mutex());
  emulation::finishAll();
  pinned.erase(static_cast<char *>(pointer));
  return std::free(pointer), cudaSuccess;
}
cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned) {
  const emulation::Lock lock(emulation::mutex());
  emulation::breakRecording();
  if (bytes == 0)
    return cudaErrorInvalidValue;
  const char *const begin = static_cast<char *>(pointer);
  if (contains(pinned, begin) || contains(pinned, begin + bytes - 1))
    return lastError = cudaErrorHostMemoryAlreadyRegistered;
  pinned[begin] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *pointer) {
  const emulation::Lock lock(emulation::mutex());
  emulation::finishAll();
  return pinned.erase(static_cast<char *>(pointer)) ? cudaSuccess : lastError = cudaErrorInvalidValue;
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned) {
  const emulation::Lock lock(emulation::mutex());
  if (!contains(pinned, host))
    return cudaErrorInvalidValue;
  return *device = host, cudaSuccess;
}

// ------------------------------------------------------------------------------------------------- copies and kernels

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
  const emulation::Lock lock(emulation::mutex());
  if (emulation::isRecording())
    return emulation::breakRecording();
  emulation::finishDefault();
  if (bytes > 0)
    std::memmove(to, from, bytes);
  return cudaSuccess;
}
// From pageable memory a copy is taken at once; what goes to it is there when the call returns.
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const emulation::Lock lock(emulation::mutex());
  if (bytes == 0)
    return cudaSuccess;
  if (emulation::isRecording() && (isPageable(from) || isPageable(to)))
    return emulation::breakRecording();
  std::function<void()> copy = [=] { std::memmove(to, from, bytes); };
  if (isPageable(from)) {
    const auto *const begin = static_cast<const char *>(from);
    copy = [to, bytes, staged = std::vector<char>(begin, begin + bytes)] { std::memcpy(to, staged.data(), bytes); };
  }
  const cudaError_t error = noted(emulation::enqueue(stream, std::move(copy)));
  return error == cudaSuccess && isPageable(to) ? cudaStreamSynchronize(stream) : error;
}
// On the default stream, and the host goes on.
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, nullptr); }
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  const emulation::Lock lock(emulation::mutex());
  return noted(emulation::enqueue(stream, [=] { std::memset(to, value, bytes); }));
}

cudaError_t cudaFuncSetAttribute(const void *function, cudaFuncAttribute, int value) {
  const emulation::Lock lock(emulation::mutex());
  if (static_cast<size_t>(value) > mostSharedBytes())
    return lastError = cudaErrorInvalidValue;
  sharedLimits()[function] = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t emulation::checkLaunch(const void *function, const cudaLaunchConfig_t &config) {
  const Lock lock(mutex());
  noteKernel(config.stream);
  const auto found = sharedLimits().find(function);
  const size_t shared = found == sharedLimits().end() ? size_t{48} << 10 : found->second;
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const auto isBetween = [](unsigned size, unsigned most) { return size >= 1 && size <= most; };
  const bool isValid = isBetween(grid.x, 0x7fffffffu) && isBetween(grid.y, 65535) && isBetween(grid.z, 65535) &&
                       isBetween(block.x, 1024) && isBetween(block.y, 1024) && isBetween(block.z, 64) &&
                       block.x * block.y * block.z <= 1024 && config.dynamicSmemBytes <= shared;
  return isValid ? cudaSuccess : lastError = cudaErrorInvalidConfiguration;
}
