// Matrix product: C[m, n] = alpha · op(A)[m, k] · op(B)[k, n] + beta · C[m, n] + bias[n], over an optional batch.
//
// The surprise: the bits of C[i, j] depend on row i of op(A), column j of op(B) and k, and on nothing else: not on m,
// n, strides, transposes, packing or the number of threads. A shard of a product has the bits of the whole.
// RATIONALE.md says why that is not left to the vendor library. Numerics: k is cut into runs of kGemmRun; each run is
// one chain of fused multiply-adds from 0, and C = ((alpha · run 0 + bias) + beta · C) + alpha · run 1 + …, each
// operation rounded to f32.
#ifndef HYC_KERNELS_GEMM_OP_H_
#define HYC_KERNELS_GEMM_OP_H_

#include <cstddef>
#include <cstdint>

#include "kernels/narrow_float.h"

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

constexpr int64_t kGemmRun = 256;

// Blocking: one column block of op(B), a few runs deep, is packed for all threads together, one row block of op(A), one
// run deep, for each.
constexpr int64_t kGemmColumnBlock = 1536;
constexpr int64_t kGemmDepthBlock = 4 * kGemmRun;
constexpr int64_t kGemmRowBlock = 168;
constexpr int64_t kGemmPanelPadding = 32;  // no panel of any instruction set is wider

constexpr int64_t gemmPaddedColumns(int64_t n) {
  return (n + kGemmPanelPadding - 1) / kGemmPanelPadding * kGemmPanelPadding;
}
constexpr size_t gemmSharedWorkspaceBytes(const GemmDesc &d) {
  const int64_t columns = gemmPaddedColumns(d.n < kGemmColumnBlock ? d.n : kGemmColumnBlock);
  return static_cast<size_t>(columns * (d.k < kGemmDepthBlock ? d.k : kGemmDepthBlock)) * sizeof(float);
}
constexpr size_t kGemmThreadWorkspaceBytes = (kGemmRowBlock * kGemmRun + kGemmPanelPadding) * sizeof(float);

// Below some 10 µs of work a second thread costs more than it brings.
constexpr bool gemmIsWorthATeam(const GemmDesc &d) { return 2.0 * d.batch * d.m * d.n * d.k >= 1e6; }

// Scratch memory for at most `threads` threads; it holds on every CPU, so that a compiler may reserve it in an arena.
constexpr size_t gemmWorkspaceBytes(const GemmDesc &d, int threads) {
  return kGemmThreadWorkspaceBytes * static_cast<size_t>(gemmIsWorthATeam(d) ? threads : 1) +
         gemmSharedWorkspaceBytes(d);
}

// `workspace` holds gemmWorkspaceBytes(desc, omp_get_max_threads()) bytes, or is null: the calling thread then keeps
// scratch memory of its own, allocated at first use. `bias` is read only if desc.hasBias. C overlaps no input.
// k = 0 gives beta · C + bias.
void gemm(const GemmDesc &desc, const float *a, const float *b, const float *bias, float *c, void *workspace = nullptr);

// Of 16-bit floats, into the same or into f32. Products are exact in f32 and summed there; C is rounded once. bf16 runs
// on AMX where the CPU has it: an element is then a chain of sums of pairs in runs of kGemmNarrowRun of k. All else is
// widened, and sums as the f32 product does. The bits depend on the same things as there, on either way. `workspace`
// holds gemmNarrowWorkspaceBytes (workspace.h), or is null.
void gemm(const GemmDesc &desc, const Bf16 *a, const Bf16 *b, const Bf16 *bias, Bf16 *c, void *workspace = nullptr);
void gemm(const GemmDesc &desc, const Bf16 *a, const Bf16 *b, const Bf16 *bias, float *c, void *workspace = nullptr);
void gemm(const GemmDesc &desc, const F16 *a, const F16 *b, const F16 *bias, F16 *c, void *workspace = nullptr);
void gemm(const GemmDesc &desc, const F16 *a, const F16 *b, const F16 *bias, float *c, void *workspace = nullptr);

constexpr int64_t kGemmNarrowRun = 4096;
// Whether products of bf16 run on AMX tiles.
bool amxIsUsable();

// A weight that several products read can be packed once: saves a copy of B per product, which shows when m is small.
// The layout is private to the CPU that packed it. desc.m, alpha, beta and bias play no part; batch is 1.
constexpr size_t packedWeightBytes(const GemmDesc &d) {
  return static_cast<size_t>(gemmPaddedColumns(d.n) * d.k) * sizeof(float);
}
void packWeight(const GemmDesc &desc, const float *b, float *packed);
// The bits of gemm. desc.ldb and desc.transB are not looked at.
void gemmPacked(const GemmDesc &desc, const float *a, const float *packed, const float *bias, float *c,
                void *workspace = nullptr);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_GEMM_OP_H_
