// Normalisation by the root mean square of the last dimension, forward and gradient (Zhang and Sennrich 2019).
//
//   rstd = 1 / sqrt(Σ x² / cols + epsilon),  n = x · rstd,  y = n · scale
//   g = dy · scale,  dx = rstd · (g − n · mean(g · n)),  dscale = Σ_rows dy · n
//
// The surprise: dx overwrites while dscale follows the write mode, since it is a parameter's gradient.
// Sums over a row run over fixed lanes. Sums over rows run over fixed blocks of rows, which depend on the shape alone.
#ifndef HYC_KERNELS_RMS_NORM_OP_H_
#define HYC_KERNELS_RMS_NORM_OP_H_

#include <cstddef>
#include <cstdint>

#include "kernels/narrow_float.h"
#include "kernels/write_mode.h"

namespace hyc::kernels {

// x, y, dy, dx: [rows, cols], of T: float, Bf16 or F16; scale, dscale: [cols]; rstd: [rows].
struct RmsNormDesc {
  int64_t rows = 0, cols = 0;
  double epsilon = 1e-6;
};

// y may be x.
template <typename T>
void rmsNormForward(const RmsNormDesc &desc, const T *x, const float *scale, T *y, float *rstd);

// Either of dx and dscale may be null and is then not computed. dx may be dy.
template <typename T>
void rmsNormBackward(const RmsNormDesc &desc, const T *x, const float *scale, const float *rstd, const T *dy, T *dx,
                     float *dscale, WriteMode mode, void *workspace);

// Rows are summed in at most kRmsNormRowBlocks blocks, each into its own row of the workspace.
constexpr int64_t kRmsNormRowBlocks = 32;
constexpr int64_t rmsNormRowsPerBlock(const RmsNormDesc &d) {
  return d.rows <= kRmsNormRowBlocks * 8 ? 8 : (d.rows + kRmsNormRowBlocks - 1) / kRmsNormRowBlocks;
}
constexpr size_t rmsNormBackwardWorkspaceBytes(const RmsNormDesc &d) {
  const int64_t blocks = (d.rows + rmsNormRowsPerBlock(d) - 1) / rmsNormRowsPerBlock(d);
  return static_cast<size_t>(blocks * d.cols) * sizeof(float);
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_RMS_NORM_OP_H_
