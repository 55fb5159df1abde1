// How packed operands of the product lie: panels of one instruction set's width, of a run of k each. For those who
// write op(B) into its packed form themselves, as convolutions do their patches.
#ifndef HYC_KERNELS_GEMM_PANELS_H_
#define HYC_KERNELS_GEMM_PANELS_H_

#include "kernels/gemm/op.h"
#include "kernels/isa/vector.h"

namespace hyc::kernels::HYC_ISA {

// 12 (or 28) sums, 2 of B and the element of A fill the 16 (or 32) vector registers.
constexpr int kPanelRows = HYC_ISA_ID == 2 ? 14 : 6;
constexpr int kPanelVectors = 2;
constexpr int kPanelColumns = kPanelVectors * kLanes;
static_assert(kPanelColumns <= kGemmPanelPadding && kGemmColumnBlock % kPanelColumns == 0);
static_assert(kGemmRowBlock % kPanelRows == 0);

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows of each tile of so many rows: as few tiles as may be, of about as many rows each, which are even.
inline int64_t rowsOfTile(int64_t rows) { return (ceilDiv(rows, ceilDiv(rows, kPanelRows)) + 1) / 2 * 2; }

// The packed form of one column block of op(B), columns n0 … n0 + columns, over a few runs of k: for each run all its
// panels. `rowFloats` is the number of floats that one step of k takes.
struct PackedB {
  float *base;
  int64_t k0, n0, columns, rowFloats;

  float *panel(int64_t run, int64_t steps, int64_t panel) const {
    return base + (run - k0) * rowFloats + panel * kPanelColumns * steps;
  }
  int64_t panels() const { return ceilDiv(columns, kPanelColumns); }
};

}  // namespace hyc::kernels::HYC_ISA

#endif  // HYC_KERNELS_GEMM_PANELS_H_
