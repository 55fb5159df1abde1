// Products on a device that is the host: cuBLASLt has no such device, so the CPU's kernels do them.
#include "kernels/gemm/cuda.h"

#include <cstring>
#include <vector>

#include "cuda_runtime.h"

namespace hyc::kernels::cuda {

namespace {

bool tf32 = false;

// To ten bits of fraction, the nearest, ties to even.
float roundedToTf32(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000u) == 0x7f800000u)
    return x;
  bits = (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// All that a product reads: the last row of the last matrix ends it.
std::vector<float> roundedToTf32(const float *from, int64_t rows, int64_t columns, int64_t rowStride, int64_t batch,
                                 int64_t stride) {
  const int64_t count = rows == 0 || columns == 0 ? 0 : (batch - 1) * stride + (rows - 1) * rowStride + columns;
  std::vector<float> to(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    to[static_cast<size_t>(i)] = roundedToTf32(from[i]);
  return to;
}

} // namespace

void allowTf32(bool isAllowed) { tf32 = isAllowed; }

const char *gemmFailure() { return nullptr; }
void forgetGemmFailure() {}

void gemm(Stream, const GemmDesc &d, const float *a, const float *b, const float *bias, float *c, void *) {
  emulation::enqueue([=, rounds = tf32] {
    if (!rounds)
      return kernels::gemm(d, a, b, bias, c);
    const auto roundedA =
        roundedToTf32(a, d.transA ? d.k : d.m, d.transA ? d.m : d.k, d.rowStrideA(), d.batch, d.strideA);
    const auto roundedB =
        roundedToTf32(b, d.transB ? d.n : d.k, d.transB ? d.k : d.n, d.rowStrideB(), d.batch, d.strideB);
    kernels::gemm(d, roundedA.data(), roundedB.data(), bias, c);
  });
}
void gemm(Stream, const GemmDesc &d, const Bf16 *a, const Bf16 *b, const Bf16 *bias, Bf16 *c, void *) {
  emulation::enqueue([=] { kernels::gemm(d, a, b, bias, c); });
}
void gemm(Stream, const GemmDesc &d, const Bf16 *a, const Bf16 *b, const Bf16 *bias, float *c, void *) {
  emulation::enqueue([=] { kernels::gemm(d, a, b, bias, c); });
}
void gemm(Stream, const GemmDesc &d, const F16 *a, const F16 *b, const F16 *bias, F16 *c, void *) {
  emulation::enqueue([=] { kernels::gemm(d, a, b, bias, c); });
}
void gemm(Stream, const GemmDesc &d, const F16 *a, const F16 *b, const F16 *bias, float *c, void *) {
  emulation::enqueue([=] { kernels::gemm(d, a, b, bias, c); });
}

} // namespace hyc::kernels::cuda
