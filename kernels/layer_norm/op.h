// Layer normalisation over the last dimension, forward and gradient.
//
//   mean = Σ x / cols,  rstd = 1 / sqrt(Σ (x − mean)² / cols + epsilon),  x̂ = (x − mean) · rstd,  y = x̂ · scale + bias
//   g = dy · scale,  dx = rstd · (g − mean(g) − x̂ · mean(g · x̂)),  dscale = Σ_rows dy · x̂,  dbias = Σ_rows dy
//
// The surprise: dx overwrites while dscale and dbias follow the write mode, since they are parameters' gradients.
// Sums over a row run over fixed lanes. Sums over rows run over fixed blocks of rows, which depend on the shape alone.
#ifndef HYC_KERNELS_LAYER_NORM_OP_H_
#define HYC_KERNELS_LAYER_NORM_OP_H_

#include <cstddef>
#include <cstdint>

#include "kernels/narrow_float.h"
#include "kernels/write_mode.h"

namespace hyc::kernels {

// x, y, dy, dx: [rows, cols], of T: float, Bf16 or F16; scale, bias, dscale, dbias: [cols]; mean, rstd: [rows].
struct LayerNormDesc {
  int64_t rows = 0, cols = 0;
  double epsilon = 1e-5;
};

// `scale` and `bias` may be null (1 and 0). y may be x.
template <typename T>
void layerNormForward(const LayerNormDesc &desc, const T *x, const float *scale, const float *bias, T *y, float *mean,
                      float *rstd);

// Any of dx, dscale and dbias may be null and is then not computed. dx may be dy.
template <typename T>
void layerNormBackward(const LayerNormDesc &desc, const T *x, const float *scale, const float *mean, const float *rstd,
                       const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode, void *workspace);

// Rows are summed in at most kLayerNormRowBlocks blocks, each into its own row of the workspace.
constexpr int64_t kLayerNormRowBlocks = 32;
constexpr int64_t layerNormRowsPerBlock(const LayerNormDesc &d) {
  return d.rows <= kLayerNormRowBlocks * 8 ? 8 : (d.rows + kLayerNormRowBlocks - 1) / kLayerNormRowBlocks;
}
constexpr size_t layerNormBackwardWorkspaceBytes(const LayerNormDesc &d) {
  const int64_t blocks = (d.rows + layerNormRowsPerBlock(d) - 1) / layerNormRowsPerBlock(d);
  return static_cast<size_t>(blocks * 2 * d.cols) * sizeof(float);
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_LAYER_NORM_OP_H_
