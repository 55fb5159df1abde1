// Matrix product: C[m, n] = alpha · op(A)[m, k] · op(B)[k, n] + beta · C[m, n] + bias[n], over an optional batch.
//
// The surprise: a product is cut into tiles that depend on its shape alone, and each tile is computed by one thread. So
// the bits do not depend on the number of threads, which one multi-threaded library call does not promise.
#ifndef HYC_KERNELS_GEMM_OP_H_
#define HYC_KERNELS_GEMM_OP_H_

#include <cstddef>
#include <cstdint>

namespace hyc::kernels {

// Matrices are row-major. A leading dimension is the distance in elements between rows as stored; 0 means dense.
// Stored shapes: A is [m, k], or [k, m] when transA; B is [k, n], or [n, k] when transB; C is [m, n].
struct GemmDesc {
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool transA = false, transB = false;
  int64_t batch = 1;                              // independent products
  int64_t strideA = 0, strideB = 0, strideC = 0;  // elements between them; 0 in A or B shares one matrix
  double alpha = 1, beta = 0;                     // beta is 0 (the old C is never read, NaN included) or 1
  bool hasBias = false;                           // bias[n], added once to each row; allowed with either beta

  int64_t rowStrideA() const { return lda ? lda : (transA ? m : k); }
  int64_t rowStrideB() const { return ldb ? ldb : (transB ? k : n); }
  int64_t rowStrideC() const { return ldc ? ldc : n; }
};

// Scratch memory that gemm and gemmPacked need for `threads` threads. It is a bound that holds on every CPU, so that a
// compiler may reserve it without knowing the machine.
constexpr size_t kGemmWorkspaceBytesPerThread = size_t{4} << 20;
constexpr size_t gemmWorkspaceBytes(const GemmDesc &, int threads) {
  return kGemmWorkspaceBytesPerThread * static_cast<size_t>(threads);
}

// `workspace` holds gemmWorkspaceBytes(desc, omp_get_max_threads()) bytes aligned to 64, or is null: the kernel then
// keeps scratch memory of its own, allocated at first use. `bias` is read only if desc.hasBias. C overlaps no input.
// k = 0 gives beta · C + bias.
void gemm(const GemmDesc &desc, const float *a, const float *b, const float *bias, float *c, void *workspace = nullptr);

// Packing B once in the layout that the CPU likes best pays for a weight that several products read: `desc.m` is the
// usual number of rows, but packed memory serves any. Only batch 1.
// Bytes that the packed B takes; 0 where packing does not pay on this CPU (call gemm then).
size_t packedWeightBytes(const GemmDesc &desc);
void packWeight(const GemmDesc &desc, const float *b, void *packed);
void gemmPacked(const GemmDesc &desc, const float *a, const void *packed, const float *bias, float *c,
                void *workspace = nullptr);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_GEMM_OP_H_
