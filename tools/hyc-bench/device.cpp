// hyc-bench-cuda MIB SECONDS PASSES: what hyc's kernels reach on the first GPU, a line a figure for the hyc-bench that
// has started it. Times are the device's own, between events.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "figure.h"
#include "kernels/attention/cuda.h"
#include "kernels/copy/cuda.h"
#include "kernels/cuda/measure.h"
#include "kernels/gemm/cuda.h"
#include "kernels/gemm/cuda_fp8.h"
#include "kernels/narrow_float.h"

namespace hycbench {
namespace {

using namespace hyc::kernels;
using cuda::Memory;

constexpr int64_t kFirstEdge = 256, kLastEdge = 8192, kLastFloatEdge = 4096;
constexpr int kBlocks = 3;
constexpr int64_t kMostRounds = 2000;
// Arrays that kernels run over are this many times --mib, which CPUs' caches were the reason for.
constexpr int64_t kTimesMib = 8;
class DeviceBench {
 public:
  DeviceBench(int64_t mib, double seconds) : bytes_(kTimesMib * (mib << 20)), enough_(seconds / kBlocks) {}

  void run(const cudaDeviceProp& device, int passes) {
    std::printf("%c0 %s\n", kAboutMark, device.name);
    tell({Measure::kDeviceMemory, Tier::kNone, static_cast<int64_t>(device.totalGlobalMem), 1, 1});
    for (int pass = 1; pass <= passes; ++pass) {
      if (pass > 1) std::printf("%c%d of %d\n", kPassMark, pass, passes);
      measureOnce(device);
    }
  }

 private:
  void measureOnce(const cudaDeviceProp& device) {
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

  void tell(const Figure& figure) {
    std::printf("%s\n", encode(figure).c_str());
    std::fflush(stdout);
  }

  // `amount` a round: operations, bytes or kernels. The median of a few blocks of rounds.
  void measure(Measure what, int64_t size, double amount, const cuda::Timer::Work& work) {
    for (int warm = 0; warm < 3; ++warm) work();
    const double once = timer_.secondsOf(2, work);
    const int64_t rounds = std::clamp<int64_t>(static_cast<int64_t>(enough_ / once), 1, kMostRounds);
    const double seconds = timer_.secondsOfBlocks(kBlocks, rounds, work)[kBlocks / 2];
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
      cuda::check(cudaMemcpyAsync(device.as<void>(), host.as<void>(), bytes, cudaMemcpyHostToDevice, stream_),
                  "copying");
      cuda::check(cudaMemcpyAsync(host.as<void>(), device.as<void>(), bytes, cudaMemcpyDeviceToHost, stream_),
                  "copying");
    });
  }

  void launches() {
    const Memory one(16);
    measure(Measure::kLaunch, 1, 1, [&] { cuda::fill(stream_, one.as<float>(), 1, 1.0f); });
  }

  const int64_t bytes_;
  const double enough_;
  cuda::Timer timer_;
  const cudaStream_t stream_ = timer_.stream();
};

}  // namespace
}  // namespace hycbench

int main(int argc, char** argv) {
  using namespace hycbench;
  using namespace hyc::kernels;
  if (argc != 4) {
    cuda::endBench(64, "this is hyc-bench's program for GPUs, which it starts itself: hyc-bench --target cuda");
  }
  const cudaDeviceProp device = cuda::openDevice();
  DeviceBench(std::strtoll(argv[1], nullptr, 10), std::strtod(argv[2], nullptr)).run(device, std::atoi(argv[3]));
  return 0;
}
