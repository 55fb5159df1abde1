// Matrix products of 8-bit floats on GPUs: the desc of op.h and the pairs of types of fp8.h.
//
// cuBLASLt multiplies them from Ada Lovelace on (compute capability 8.9), where both operands lie along k and sizes are
// multiples of 16: operands that lie otherwise are transposed into scratch memory. Where it has no algorithm, both are
// widened to bf16 there and multiplied as such, which is exact.
#ifndef HYC_KERNELS_GEMM_CUDA_FP8_H_
#define HYC_KERNELS_GEMM_CUDA_FP8_H_

#include "kernels/gemm/cuda.h"

namespace hyc::kernels::cuda {

// What the library uses, then both operands dense, as bf16 or transposed.
struct Float8Scratch {
  int64_t a, b, bytes;  // where the operands begin

  static constexpr int64_t wholeLines(int64_t bytes) { return (bytes + 255) / 256 * 256; }
  constexpr explicit Float8Scratch(const GemmDesc &d)
      : a(kGemmWorkspaceBytes),
        b(a + wholeLines(d.batch * d.m * d.k * 2)),
        bytes(b + wholeLines(d.batch * d.k * d.n * 2)) {}
};

// workspace: Float8Scratch(desc).bytes of device memory, aligned to 256. `bias` is read only if desc.hasBias.
#define HYC_FLOAT8_GEMM(A, B, C) \
  void gemm(Stream stream, const GemmDesc &desc, const A *a, const B *b, const Bf16 *bias, C *c, void *workspace)
HYC_FLOAT8_GEMM(E4m3, E4m3, Bf16);
HYC_FLOAT8_GEMM(E4m3, E4m3, float);
HYC_FLOAT8_GEMM(E4m3, E5m2, Bf16);
HYC_FLOAT8_GEMM(E4m3, E5m2, float);
HYC_FLOAT8_GEMM(E5m2, E4m3, Bf16);
HYC_FLOAT8_GEMM(E5m2, E4m3, float);
#undef HYC_FLOAT8_GEMM

enum class Float8Kind { kE4m3, kE5m2 };

// A product that the library may do itself: A is [m, k] and B [n, k], each with rows of any stride; no bias.
struct Float8Product {
  GemmDesc desc;  // transB, not transA
  Float8Kind a, b;
  bool intoF32;
};

// Whether there is an algorithm for such a product; the answer is kept. Addresses count by their alignment alone.
bool float8IsNative(const Float8Product &product, const void *a, const void *b, const void *c);
// Does it, if so; false: nothing was put on the stream.
bool multiplyFloat8(Stream stream, const Float8Product &product, const void *a, const void *b, void *c,
                    void *workspace);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_GEMM_CUDA_FP8_H_
