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

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/adamw/cuda.h"
#include "kernels/attention/cuda.h"
#include "kernels/gemm/cuda.h"
#include "kernels/narrow_float.h"

using namespace hyc::kernels;

namespace {

constexpr int kWarmUps = 5, kTurns = 5;

void check(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "error: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(70);
}

template <typename T>
T *onDevice(int64_t count) {
  void *memory = nullptr;
  check(cudaMalloc(&memory, static_cast<size_t>(count) * sizeof(T)), "allocating");
  // Mixed bits: equal ones take less power, so that the clock stays higher than it would in training.
  std::vector<uint16_t> values(static_cast<size_t>(count) * sizeof(T) / 2);
  uint32_t state = 12345;
  for (uint16_t &value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint16_t>((state >> 16 & 0x807f) | 0x3c00);
  }
  check(cudaMemcpy(memory, values.data(), values.size() * 2, cudaMemcpyHostToDevice), "filling");
  return static_cast<T *>(memory);
}

/// Milliseconds a call: the best of several turns, each of `calls` calls between two events.
double milliseconds(cudaStream_t stream, int calls, const std::function<void()> &call) {
  cudaEvent_t begin, end;
  check(cudaEventCreateWithFlags(&begin, cudaEventDefault), "making an event");
  check(cudaEventCreateWithFlags(&end, cudaEventDefault), "making an event");
  for (int i = 0; i < kWarmUps; ++i) call();
  check(cudaGetLastError(), "starting a kernel");  // of a GPU that the kernels are not compiled for, say
  double best = 1e30;
  for (int turn = 0; turn < kTurns; ++turn) {
    check(cudaEventRecord(begin, stream), "recording");
    for (int i = 0; i < calls; ++i) call();
    check(cudaEventRecord(end, stream), "recording");
    check(cudaEventSynchronize(end), "running a kernel");
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, begin, end), "reading an event");
    best = std::min(best, static_cast<double>(elapsed) / calls);
  }
  check(cudaGetLastError(), "starting a kernel");
  if (const char *failure = cuda::gemmFailure()) {
    std::fprintf(stderr, "error: %s\n", failure);
    std::exit(70);
  }
  return best;
}

/// TFLOP/s.
double gemmRate(cudaStream_t stream) {
  constexpr int64_t n = 8192;
  GemmDesc d;
  d.m = d.n = d.k = n;
  d.transB = true;
  Bf16 *a = onDevice<Bf16>(n * n), *b = onDevice<Bf16>(n * n), *c = onDevice<Bf16>(n * n);
  uint8_t *workspace = onDevice<uint8_t>(cuda::kGemmWorkspaceBytes);
  const double ms = milliseconds(stream, 10, [&] { cuda::gemm(stream, d, a, b, nullptr, c, workspace); });
  for (void *memory :
       {static_cast<void *>(a), static_cast<void *>(b), static_cast<void *>(c), static_cast<void *>(workspace)})
    cudaFree(memory);
  return 2.0 * n * n * n / ms * 1e-9;
}

struct AttentionShape {
  int64_t batch = 8, sequence = 1024, heads = 12, headDim = 64;
};
struct AttentionTimes {
  double forward, backward;
};

AttentionTimes attentionTimes(cudaStream_t stream, const AttentionShape &s) {
  AttentionDesc d;
  d.batch = s.batch, d.queryLength = d.keyLength = s.sequence, d.heads = d.kvHeads = s.heads, d.headDim = s.headDim;
  d.causal = true, d.scale = 0.125;
  const int64_t width = s.heads * s.headDim, elements = s.batch * s.sequence * width;
  const HeadStrides strides{s.sequence * width, width, s.headDim};
  d.q = d.k = d.v = d.o = d.dO = d.dq = d.dk = d.dv = strides;
  Bf16 *q = onDevice<Bf16>(elements), *k = onDevice<Bf16>(elements), *v = onDevice<Bf16>(elements);
  Bf16 *o = onDevice<Bf16>(elements), *dO = onDevice<Bf16>(elements), *dq = onDevice<Bf16>(elements);
  Bf16 *dk = onDevice<Bf16>(elements), *dv = onDevice<Bf16>(elements);
  float *lse = onDevice<float>(s.batch * s.heads * s.sequence);
  float *workspace = onDevice<float>(static_cast<int64_t>(cuda::attentionBackwardWorkspaceBytes(d) / sizeof(float)));
  AttentionTimes times{};
  times.forward = milliseconds(stream, 20, [&] { cuda::attentionForward<Bf16>(stream, d, nullptr, q, k, v, o, lse); });
  times.backward = milliseconds(stream, 20, [&] {
    cuda::attentionBackward<Bf16>(stream, d, nullptr, q, k, v, o, lse, dO, dq, dk, dv, workspace);
  });
  for (Bf16 *memory : {q, k, v, o, dO, dq, dk, dv}) cudaFree(memory);
  cudaFree(lse);
  cudaFree(workspace);
  return times;
}

/// Bytes/s that are read and written by a copy of 1 GiB on the device.
double copyBandwidth(cudaStream_t stream) {
  constexpr int64_t bytes = int64_t{1} << 30;
  uint8_t *from = onDevice<uint8_t>(bytes), *to = onDevice<uint8_t>(bytes);
  const double ms = milliseconds(
      stream, 5, [&] { check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copying"); });
  cudaFree(from);
  cudaFree(to);
  return 2.0 * bytes / ms * 1e3;
}

/// Of 124 million elements in tensors of the sizes of GPT-2's: parameter, m and v read and written, gradient read,
/// rounded copy written.
double adamwBandwidth(cudaStream_t stream) {
  std::vector<cuda::AdamWTensor<Bf16, Bf16>> tensors;
  std::vector<void *> memories;
  int64_t elements = 0;
  const auto add = [&](int64_t n) {
    cuda::AdamWTensor<Bf16, Bf16> tensor{
        n, onDevice<float>(n), onDevice<Bf16>(n), onDevice<float>(n), onDevice<float>(n), onDevice<Bf16>(n)};
    for (void *memory :
         {static_cast<void *>(tensor.param), static_cast<void *>(const_cast<Bf16 *>(tensor.grad)),
          static_cast<void *>(tensor.m), static_cast<void *>(tensor.v), static_cast<void *>(tensor.rounded)})
      memories.push_back(memory);
    tensors.push_back(tensor);
    elements += n;
  };
  add(50257 * 768);
  add(1024 * 768);
  for (int layer = 0; layer < 12; ++layer)
    for (const int64_t n : {768, 768, 768 * 2304, 2304, 768 * 768, 768, 768, 768, 768 * 3072, 3072, 3072 * 768, 768})
      add(n);
  float *scalars = onDevice<float>(2);
  int64_t *step = onDevice<int64_t>(1);
  const float lrAndScale[2] = {1e-8f, 1.0f};
  const int64_t ten = 10;
  check(cudaMemcpy(scalars, lrAndScale, sizeof lrAndScale, cudaMemcpyHostToDevice), "filling");
  check(cudaMemcpy(step, &ten, sizeof ten, cudaMemcpyHostToDevice), "filling");
  AdamWParams params;
  params.beta1 = 0.9, params.beta2 = 0.95, params.epsilon = 1e-8, params.weightDecay = 0.1;
  cuda::AdamWScalars on{scalars, step, scalars + 1};
  const double ms = milliseconds(
      stream, 5, [&] { cuda::adamw(stream, params, on, tensors.data(), static_cast<int>(tensors.size())); });
  for (void *memory : memories) cudaFree(memory);
  cudaFree(scalars);
  cudaFree(step);
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
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "error: there is no CUDA device: %s\n", cudaGetErrorString(error));
    return 69;
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "asking what the device is");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");

  const double gemm = gemmRate(stream);
  const AttentionTimes attention = attentionTimes(stream, shape);
  const double copy = copyBandwidth(stream), adamw = adamwBandwidth(stream), gemmAfter = gemmRate(stream);
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
