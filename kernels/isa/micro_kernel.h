// The register-blocked product that gemm and attention are built of: C[rows, vectors · kLanes] (=, +=) A · B.
//
// Every element of C is one chain of multiply-adds over k in ascending order, starting at 0. So an element's bits
// depend neither on the block it is computed in nor on the vector width.
#ifndef HYC_KERNELS_ISA_MICRO_KERNEL_H_
#define HYC_KERNELS_ISA_MICRO_KERNEL_H_

#include "kernels/isa/vector.h"

namespace hyc::kernels::HYC_ISA {

// Operands of one block. A's element (i, p) is at a[i · aRow + p · aStep]; row p of B at b + p · bStep; row i of C at
// c + i · cRow. B and C are read and written in whole vectors.
struct MicroOperands {
  const float *a;
  int64_t aRow, aStep;
  const float *b;
  int64_t bStep;
  float *c;
  int64_t cRow;
};

struct Nothing {
  HYC_INLINE void operator()(int64_t) const {}
};

// before(p): what is to be on its way at step p.
template <int kRows, int kVectors, typename Before = Nothing>
HYC_INLINE void multiplyBlock(Vector (&sum)[kRows][kVectors], int64_t k, const MicroOperands &x, Before before = {}) {
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) sum[i][j] = Vector{};
  const float *a = x.a, *b = x.b;
#pragma GCC unroll 4
  for (int64_t p = 0; p < k; ++p, a += x.aStep, b += x.bStep) {
    before(p);
    Vector bRow[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) bRow[j] = load(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const Vector aElement = broadcast(a[i * x.aRow]);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] = multiplyAdd(aElement, bRow[j], sum[i][j]);
    }
  }
}

enum class BlockResult { kStore, kAdd };

template <int kRows, int kVectors>
void microKernel(int64_t k, const MicroOperands &x, BlockResult result) {
  Vector sum[kRows][kVectors];
  multiplyBlock<kRows, kVectors>(sum, k, x);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float *c = x.c + i * x.cRow + j * kLanes;
      store(c, result == BlockResult::kAdd ? load(c) + sum[i][j] : sum[i][j]);
    }
}

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_ISA_MICRO_KERNEL_H_
