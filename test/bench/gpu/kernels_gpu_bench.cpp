// What bounds a training step on this GPU, and what hyc's kernels reach of it, all within one run:
//
//   - TFLOP/s of an 8192³ product in bf16 by cuBLASLt, the rate that steps are compared with;
//   - attention of GPT-2's shape in bf16, forward and backward: milliseconds and TFLOP/s, the causal half counted;
//   - AdamW with a bf16 gradient and copy: bytes/s, as a share of what copying on the device reaches.
//
// Prints one JSON object on stdout, a table on stderr. Without a device: one line, and 69.
//
// Usage: kernels_gpu_bench [--batch N] [--sequence N] [--heads N] [--head-dim N]
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/adamw/cuda.h"
#include "kernels/attention/cuda.h"
#include "kernels/cuda/measure.h"
#include "kernels/gemm/cuda.h"
#include "kernels/narrow_float.h"

using namespace hyc::kernels;
using cuda::check;
using cuda::Memory;

namespace {

constexpr int kWarmUps = 5, kTurns = 5;

template <typename T>
Memory onDevice(int64_t count) {
  return Memory(count * int64_t{sizeof(T)});
}

/// Milliseconds a call: the best of several turns, each of `calls` calls.
double milliseconds(cuda::Timer &timer, int calls, const cuda::Timer::Work &call) {
  for (int i = 0; i < kWarmUps; ++i) call();
  return timer.secondsOfBlocks(kTurns, calls, call).front() * 1e3;
}

/// TFLOP/s.
double gemmRate(cuda::Timer &timer) {
  constexpr int64_t n = 8192;
  GemmDesc d;
  d.m = d.n = d.k = n;
  d.transB = true;
  const Memory a = onDevice<Bf16>(n * n), b = onDevice<Bf16>(n * n), c = onDevice<Bf16>(n * n);
  const Memory workspace(cuda::kGemmWorkspaceBytes);
  const double ms = milliseconds(timer, 10, [&] {
    cuda::gemm(timer.stream(), d, a.as<Bf16>(), b.as<Bf16>(), static_cast<const Bf16 *>(nullptr), c.as<Bf16>(),
               workspace.as<void>());
  });
  return 2.0 * n * n * n / ms * 1e-9;
}

struct AttentionShape {
  int64_t batch = 8, sequence = 1024, heads = 12, headDim = 64;
};
struct AttentionTimes {
  double forward, backward;
};

AttentionTimes attentionTimes(cuda::Timer &timer, const AttentionShape &s) {
  AttentionDesc d;
  d.batch = s.batch, d.queryLength = d.keyLength = s.sequence, d.heads = d.kvHeads = s.heads, d.headDim = s.headDim;
  d.causal = true, d.scale = 0.125;
  const int64_t width = s.heads * s.headDim, elements = s.batch * s.sequence * width;
  const HeadStrides strides{s.sequence * width, width, s.headDim};
  d.q = d.k = d.v = d.o = d.dO = d.dq = d.dk = d.dv = strides;
  const Memory q = onDevice<Bf16>(elements), k = onDevice<Bf16>(elements), v = onDevice<Bf16>(elements);
  const Memory o = onDevice<Bf16>(elements), dO = onDevice<Bf16>(elements), dq = onDevice<Bf16>(elements);
  const Memory dk = onDevice<Bf16>(elements), dv = onDevice<Bf16>(elements);
  const Memory lse = onDevice<float>(s.batch * s.heads * s.sequence);
  const Memory workspace(static_cast<int64_t>(cuda::attentionBackwardWorkspaceBytes(d)));
  AttentionTimes times{};
  times.forward = milliseconds(timer, 20, [&] {
    cuda::attentionForward<Bf16>(timer.stream(), d, nullptr, q.as<Bf16>(), k.as<Bf16>(), v.as<Bf16>(), o.as<Bf16>(),
                                 lse.as<float>());
  });
  times.backward = milliseconds(timer, 20, [&] {
    cuda::attentionBackward<Bf16>(timer.stream(), d, nullptr, q.as<Bf16>(), k.as<Bf16>(), v.as<Bf16>(), o.as<Bf16>(),
                                  lse.as<float>(), dO.as<Bf16>(), dq.as<Bf16>(), dk.as<Bf16>(), dv.as<Bf16>(),
                                  workspace.as<float>());
  });
  return times;
}

/// Bytes/s that are read and written by a copy of 1 GiB on the device.
double copyBandwidth(cuda::Timer &timer) {
  constexpr int64_t bytes = int64_t{1} << 30;
  const Memory from(bytes), to(bytes);
  const double ms = milliseconds(timer, 5, [&] {
    check(cudaMemcpyAsync(to.as<void>(), from.as<void>(), bytes, cudaMemcpyDeviceToDevice, timer.stream()), "copying");
  });
  return 2.0 * bytes / ms * 1e3;
}

/// Of 124 million elements in tensors of the sizes of GPT-2's: parameter, m and v read and written, gradient read,
/// rounded copy written.
double adamwBandwidth(cuda::Timer &timer) {
  std::vector<cuda::AdamWTensor<Bf16, Bf16>> tensors;
  std::vector<Memory> memories;
  int64_t elements = 0;
  const auto on32 = [&](int64_t n) { return memories.emplace_back(onDevice<float>(n)).as<float>(); };
  const auto on16 = [&](int64_t n) { return memories.emplace_back(onDevice<Bf16>(n)).as<Bf16>(); };
  const auto add = [&](int64_t n) {
    tensors.push_back({n, on32(n), on16(n), on32(n), on32(n), on16(n)});
    elements += n;
  };
  add(50257 * 768);
  add(1024 * 768);
  for (int layer = 0; layer < 12; ++layer)
    for (const int64_t n : {768, 768, 768 * 2304, 2304, 768 * 768, 768, 768, 768, 768 * 3072, 3072, 3072 * 768, 768})
      add(n);
  const Memory scalars = onDevice<float>(2), step = onDevice<int64_t>(1);
  const float lrAndScale[2] = {1e-8f, 1.0f};
  const int64_t ten = 10;
  check(cudaMemcpy(scalars.as<void>(), lrAndScale, sizeof lrAndScale, cudaMemcpyHostToDevice), "filling");
  check(cudaMemcpy(step.as<void>(), &ten, sizeof ten, cudaMemcpyHostToDevice), "filling");
  AdamWParams params;
  params.beta1 = 0.9, params.beta2 = 0.95, params.epsilon = 1e-8, params.weightDecay = 0.1;
  cuda::AdamWScalars on{scalars.as<float>(), step.as<int64_t>(), scalars.as<float>() + 1};
  const double ms = milliseconds(
      timer, 5, [&] { cuda::adamw(timer.stream(), params, on, tensors.data(), static_cast<int>(tensors.size())); });
  return static_cast<double>(elements) * (6 * sizeof(float) + 2 * sizeof(Bf16)) / ms * 1e3;
}

}  // namespace

int main(int argc, char **argv) {
  AttentionShape shape;
  for (int i = 1; i + 1 < argc; i += 2) {
    for (const auto &[name, value] : {std::pair("--batch", &shape.batch), std::pair("--sequence", &shape.sequence),
                                      std::pair("--heads", &shape.heads), std::pair("--head-dim", &shape.headDim)})
      if (!std::strcmp(argv[i], name)) *value = std::atoll(argv[i + 1]);
  }
  const cudaDeviceProp properties = cuda::openDevice();
  cuda::Timer timer;

  const double gemm = gemmRate(timer);
  const AttentionTimes attention = attentionTimes(timer, shape);
  const double copy = copyBandwidth(timer), adamw = adamwBandwidth(timer), gemmAfter = gemmRate(timer);
  // Two products forward and five backward, each over half of the scores.
  const double product = static_cast<double>(shape.batch * shape.heads * shape.headDim) *
                         static_cast<double>(shape.sequence) * static_cast<double>(shape.sequence);
  const double forwardRate = 2 * product / attention.forward * 1e-9;
  const double backwardRate = 5 * product / attention.backward * 1e-9;
  std::fprintf(stderr, "%s\n", properties.name);
  std::fprintf(stderr, "gemm 8192^3 bf16       %8.1f TFLOP/s before, %.1f after\n", gemm, gemmAfter);
  std::fprintf(stderr, "attention forward      %8.3f ms, %.1f TFLOP/s\n", attention.forward, forwardRate);
  std::fprintf(stderr, "attention backward     %8.3f ms, %.1f TFLOP/s\n", attention.backward, backwardRate);
  std::fprintf(stderr, "copy on the device     %8.1f GB/s\n", copy * 1e-9);
  std::fprintf(stderr, "adamw                  %8.1f GB/s, %.2f of the copy\n", adamw * 1e-9, adamw / copy);
  std::printf(
      "{\"device\":\"%s\",\"gemm_tflops\":%.2f,\"gemm_tflops_after\":%.2f,\"attention_forward_ms\":%.4f,"
      "\"attention_backward_ms\":%.4f,\"copy_gbs\":%.1f,\"adamw_gbs\":%.1f}\n",
      properties.name, gemm, gemmAfter, attention.forward, attention.backward, copy * 1e-9, adamw * 1e-9);
  return 0;
}
