// hyc-bench-cuda MIB SECONDS: what hyc's kernels reach on the first GPU, a line a figure for the hyc-bench that has
// started it. Times are the device's own, between events.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "figure.h"
#include "kernels/attention/cuda.h"
#include "kernels/copy/cuda.h"
#include "kernels/gemm/cuda.h"
#include "kernels/gemm/cuda_fp8.h"
#include "kernels/narrow_float.h"

namespace hycbench {
namespace {

using namespace hyc::kernels;

constexpr int64_t kFirstEdge = 256, kLastEdge = 8192, kLastFloatEdge = 4096;
constexpr int kBlocks = 3;
constexpr int64_t kMostRounds = 2000;
// Arrays that kernels run over are this many times --mib, which CPUs' caches were the reason for.
constexpr int64_t kTimesMib = 8;
constexpr int kUnavailable = 69, kBroken = 70;

[[noreturn]] void fail(int status, const std::string& why) {
  std::fprintf(stderr, "error: %s\n", why.c_str());
  std::exit(status);
}
void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(kBroken, std::string(what) + ": " + cudaGetErrorString(error));
}

// Memory of the device, or pinned memory of the host, with bits that are all kinds of numbers below 2 in every type,
// none of them NaN: equal ones take less power than training's.
class Memory {
 public:
  explicit Memory(int64_t bytes, bool onHost = false) : onHost_(onHost) {
    const size_t size = static_cast<size_t>(bytes);
    check(onHost ? cudaMallocHost(&at_, size) : cudaMalloc(&at_, size), "allocating");
    std::vector<uint16_t> values(std::min<size_t>(size / 2, size_t{1} << 20));
    uint32_t state = 12345;
    for (uint16_t& value : values) {
      state = state * 1664525u + 1013904223u;
      value = static_cast<uint16_t>((state >> 16 & 0x803f) | 0x3f00);
    }
    for (size_t begin = 0; begin + 1 < size; begin += values.size() * 2) {
      check(cudaMemcpy(static_cast<char*>(at_) + begin, values.data(), std::min(values.size() * 2, size - begin),
                       cudaMemcpyDefault),
            "filling");
    }
  }
  ~Memory() { onHost_ ? cudaFreeHost(at_) : cudaFree(at_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  template <typename T>
  T* as() const {
    return static_cast<T*>(at_);
  }

 private:
  void* at_ = nullptr;
  const bool onHost_;
};

class DeviceBench {
 public:
  DeviceBench(int64_t mib, double seconds) : bytes_(kTimesMib * (mib << 20)), enough_(seconds / kBlocks) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    check(cudaEventCreateWithFlags(&begin_, cudaEventDefault), "making an event");
    check(cudaEventCreateWithFlags(&end_, cudaEventDefault), "making an event");
  }

  void run(const cudaDeviceProp& device) {
    std::printf("%c0 %s\n", kAboutMark, device.name);
    tell({Measure::kDeviceMemory, Tier::kNone, static_cast<int64_t>(device.totalGlobalMem), 1, 1});
    products<float>(Measure::kProduct, kLastFloatEdge);
    products<Bf16>(Measure::kNarrowProduct, kLastEdge);
    if (device.major * 10 + device.minor >= 89) float8Products();
    // GPT-2's shape, and that of larger models.
    attention(16, 1024, 12, 64);
    attention(4, 2048, 16, 128);
    memory();
    hostCopies();
    launches();
  }

 private:
  using Work = std::function<void()>;

  void tell(const Figure& figure) {
    std::printf("%s\n", encode(figure).c_str());
    std::fflush(stdout);
  }

  double secondsOf(int64_t rounds, const Work& work) {
    check(cudaEventRecord(begin_, stream_), "recording an event");
    for (int64_t round = 0; round < rounds; ++round) work();
    check(cudaEventRecord(end_, stream_), "recording an event");
    check(cudaEventSynchronize(end_), "running a kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "reading an event");
    return std::max(1e-3 * static_cast<double>(ms), 1e-9) / static_cast<double>(rounds);
  }

  // `amount` a round: operations, bytes or kernels. The median of a few blocks of rounds.
  void measure(Measure what, int64_t size, double amount, const Work& work) {
    for (int warm = 0; warm < 3; ++warm) work();
    const double once = secondsOf(2, work);
    const int64_t rounds = std::clamp<int64_t>(static_cast<int64_t>(enough_ / once), 1, kMostRounds);
    std::vector<double> blocks;
    for (int block = 0; block < kBlocks; ++block) blocks.push_back(secondsOf(rounds, work));
    check(cudaGetLastError(), "starting a kernel");
    if (const char* failure = cuda::gemmFailure()) fail(kBroken, failure);
    std::sort(blocks.begin(), blocks.end());
    const double seconds = blocks[kBlocks / 2];
    tell({what, Tier::kNone, size, seconds, amount / seconds});
  }

  template <typename T>
  void products(Measure what, int64_t lastEdge) {
    const int64_t most = lastEdge * lastEdge * int64_t{sizeof(T)};
    const Memory a(most), b(most), c(most), workspace(cuda::kGemmWorkspaceBytes);
    for (int64_t edge = kFirstEdge; edge <= lastEdge; edge *= 2) {
      GemmDesc product;
      product.m = product.n = product.k = edge;
      product.transB = true;
      const int64_t operations = 2 * edge * edge * edge;
      measure(what, operations, static_cast<double>(operations), [&] {
        cuda::gemm(stream_, product, a.as<T>(), b.as<T>(), static_cast<const T*>(nullptr), c.as<T>(),
                   workspace.as<void>());
      });
    }
  }

  void float8Products() {
    GemmDesc product;
    product.m = product.n = product.k = kLastEdge;
    product.transB = true;
    const Memory a(kLastEdge * kLastEdge), b(kLastEdge * kLastEdge), c(kLastEdge * kLastEdge * 2),
        workspace(cuda::Float8Scratch(product).bytes);
    const int64_t operations = 2 * kLastEdge * kLastEdge * kLastEdge;
    measure(Measure::kFloat8Product, operations, static_cast<double>(operations), [&] {
      cuda::gemm(stream_, product, a.as<E4m3>(), b.as<E4m3>(), static_cast<const Bf16*>(nullptr), c.as<Bf16>(),
                 workspace.as<void>());
    });
  }

  // Two products forward and five backward, each over half of the scores.
  void attention(int64_t batch, int64_t sequence, int64_t heads, int64_t headDim) {
    AttentionDesc d;
    d.batch = batch, d.queryLength = d.keyLength = sequence, d.heads = d.kvHeads = heads, d.headDim = headDim;
    d.causal = true, d.scale = 0.125;
    const int64_t width = heads * headDim, bytes = batch * sequence * width * 2;
    const HeadStrides strides{sequence * width, width, headDim};
    d.q = d.k = d.v = d.o = d.dO = d.dq = d.dk = d.dv = strides;
    const Memory q(bytes), k(bytes), v(bytes), o(bytes), dO(bytes), dq(bytes), dk(bytes), dv(bytes),
        lse(batch * heads * sequence * int64_t{sizeof(float)}),
        workspace(static_cast<int64_t>(cuda::attentionBackwardWorkspaceBytes(d)));
    const int64_t operations = 7 * batch * heads * headDim * sequence * sequence;
    measure(Measure::kAttention, operations, static_cast<double>(operations), [&] {
      cuda::attentionForward<Bf16>(stream_, d, nullptr, q.as<Bf16>(), k.as<Bf16>(), v.as<Bf16>(), o.as<Bf16>(),
                                   lse.as<float>());
      cuda::attentionBackward<Bf16>(stream_, d, nullptr, q.as<Bf16>(), k.as<Bf16>(), v.as<Bf16>(), o.as<Bf16>(),
                                    lse.as<float>(), dO.as<Bf16>(), dq.as<Bf16>(), dk.as<Bf16>(), dv.as<Bf16>(),
                                    workspace.as<float>());
    });
  }

  // Reads two arrays and writes one, as the sum of gradients does.
  void memory() {
    const Memory sum(bytes_), term(bytes_);
    measure(Measure::kMemory, 3 * bytes_, 3 * static_cast<double>(bytes_),
            [&] { cuda::accumulate(stream_, sum.as<float>(), term.as<float>(), bytes_ / 4, WriteMode::kAccumulate); });
  }

  // To and fro, from pinned memory.
  void hostCopies() {
    const Memory device(bytes_), host(bytes_, /*onHost=*/true);
    const size_t bytes = static_cast<size_t>(bytes_);
    measure(Measure::kHost, bytes_, 2 * static_cast<double>(bytes_), [&] {
      check(cudaMemcpyAsync(device.as<void>(), host.as<void>(), bytes, cudaMemcpyHostToDevice, stream_), "copying");
      check(cudaMemcpyAsync(host.as<void>(), device.as<void>(), bytes, cudaMemcpyDeviceToHost, stream_), "copying");
    });
  }

  void launches() {
    const Memory one(16);
    measure(Measure::kLaunch, 1, 1, [&] { cuda::fill(stream_, one.as<float>(), 1, 1.0f); });
  }

  const int64_t bytes_;
  const double enough_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace
}  // namespace hycbench

int main(int argc, char** argv) {
  using namespace hycbench;
  if (argc != 3) fail(64, "this is hyc-bench's program for GPUs, which it starts itself: hyc-bench --target cuda");
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0)
    fail(kUnavailable, std::string("there is no CUDA device: ") + cudaGetErrorString(error));
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "asking what the device is");
  DeviceBench(std::strtoll(argv[1], nullptr, 10), std::strtod(argv[2], nullptr)).run(device);
  return 0;
}
