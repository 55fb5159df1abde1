// What benches of kernels on a GPU have in common: memory that is filled as training's is, and times by the device's
// own clock, between events. Whatever fails ends the process.
#ifndef HYC_KERNELS_CUDA_MEASURE_H_
#define HYC_KERNELS_CUDA_MEASURE_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/gemm/cuda.h"

namespace hyc::kernels::cuda {

constexpr int kNoDevice = 69, kDeviceBroken = 70;  // exit statuses

[[noreturn]] inline void endBench(int status, const std::string &why) {
  std::fprintf(stderr, "error: %s\n", why.c_str());
  std::exit(status);
}

inline void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess) endBench(kDeviceBroken, std::string(what) + ": " + cudaGetErrorString(error));
}

// The first device.
inline cudaDeviceProp openDevice() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    endBench(kNoDevice, std::string("there is no CUDA device: ") + cudaGetErrorString(error));
  }
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "asking what the device is");
  return device;
}

// Memory of the device, or pinned memory of the host, with bits that are all kinds of numbers below 2 in every type,
// none of them NaN: equal ones take less power than training's, so that the clock stays higher.
class Memory {
 public:
  explicit Memory(int64_t bytes, bool onHost = false) : onHost_(onHost) {
    const size_t size = static_cast<size_t>(bytes);
    check(onHost ? cudaMallocHost(&at_, size) : cudaMalloc(&at_, size), "allocating");
    std::vector<uint16_t> values(std::min<size_t>(size / 2, size_t{1} << 20));
    uint32_t state = 12345;
    for (uint16_t &value : values) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<uint16_t>((state >> 16 & 0x803f) | 0x3f00);
    }
    for (size_t begin = 0; begin + 1 < size; begin += values.size() * 2) {
      check(cudaMemcpy(static_cast<char *>(at_) + begin, values.data(), std::min(values.size() * 2, size - begin),
                       cudaMemcpyDefault),
            "filling");
    }
  }
  Memory(Memory &&other) noexcept : at_(other.at_), onHost_(other.onHost_) { other.at_ = nullptr; }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  ~Memory() { onHost_ ? cudaFreeHost(at_) : cudaFree(at_); }

  template <typename T>
  T *as() const {
    return static_cast<T *>(at_);
  }

 private:
  void *at_ = nullptr;
  const bool onHost_;
};

class Timer {
 public:
  using Work = std::function<void()>;

  // `work` is started on this stream.
  Timer() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    check(cudaEventCreateWithFlags(&begin_, cudaEventDefault), "making an event");
    check(cudaEventCreateWithFlags(&end_, cudaEventDefault), "making an event");
  }
  Timer(const Timer &) = delete;
  Timer &operator=(const Timer &) = delete;
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  cudaStream_t stream() const { return stream_; }

  // Seconds of a round, of so many in one go.
  double secondsOf(int64_t rounds, const Work &work) {
    check(cudaEventRecord(begin_, stream_), "recording an event");
    for (int64_t round = 0; round < rounds; ++round) work();
    check(cudaEventRecord(end_, stream_), "recording an event");
    check(cudaGetLastError(), "starting a kernel");  // of a GPU that the kernels are not compiled for, say
    if (const char *failure = gemmFailure()) endBench(kDeviceBroken, failure);
    check(cudaEventSynchronize(end_), "running a kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "reading an event");
    return std::max(1e-3 * static_cast<double>(ms), 1e-9) / static_cast<double>(rounds);
  }

  // The same of each of so many blocks of rounds, the fastest first.
  std::vector<double> secondsOfBlocks(int blocks, int64_t rounds, const Work &work) {
    std::vector<double> seconds;
    for (int block = 0; block < blocks; ++block) seconds.push_back(secondsOf(rounds, work));
    std::sort(seconds.begin(), seconds.end());
    return seconds;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_MEASURE_H_
