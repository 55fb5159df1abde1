// The runtime API of a device that is the host: memory is memory, and whatever is put on a stream is done at once.
#include <cstdlib>

#include "cuda_runtime.h"

const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : error == cudaSuccess ? "no error" : "an error";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }

// HYC_EMULATION_MEMORY: bytes of the device.
static size_t deviceBytes() {
  const char *text = std::getenv("HYC_EMULATION_MEMORY");
  return text ? std::strtoull(text, nullptr, 10) : size_t{4} << 30;
}
// HYC_EMULATION_CAPABILITY: as in 90.
static int capability() {
  const char *text = std::getenv("HYC_EMULATION_CAPABILITY");
  return text ? std::atoi(text) : 90;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  *properties = {"the host, as a device", deviceBytes(), capability() / 10, capability() % 10, 4};
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
  *free = *total = deviceBytes();
  return cudaSuccess;
}
// What nobody has written is no number.
cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!*pointer)
    return cudaErrorMemoryAllocation;
  std::memset(*pointer, 0xFF, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void *pointer) { return std::free(pointer), cudaSuccess; }
cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaFreeHost(void *pointer) { return cudaFree(pointer); }
cudaError_t cudaHostRegister(void *, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void *) { return cudaSuccess; }
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaMemset(void *to, int value, size_t bytes) { return std::memset(to, value, bytes), cudaSuccess; }
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) { return cudaMemset(to, value, bytes); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) { return *stream = nullptr, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return *event = nullptr, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) { return cudaSuccess; }
