// Normalisation of groups of channels (group norm; instance norm where a group is one channel), forward and gradient.
//
//   mean = Σ x / n,  rstd = 1 / sqrt(Σ (x − mean)² / n + epsilon) over the n = channels · positions elements of a group
//   x̂ = (x − mean) · rstd,  y = x̂ · scale + bias,  g = dy · scale,  dx = rstd · (g − mean(g) − x̂ · mean(g · x̂))
//   dscale = Σ dy · x̂,  dbias = Σ dy over samples and positions
//
// The surprise: dx overwrites while dscale and dbias follow the write mode, since they are parameters' gradients.
// Sums over a group, or over a channel's positions, run over fixed lanes in fixed blocks; channels' sums are combined
// in their order, and samples in fixed blocks, which depend on the shape alone.
#ifndef HYC_KERNELS_GROUP_NORM_OP_H_
#define HYC_KERNELS_GROUP_NORM_OP_H_

#include <cstddef>
#include <cstdint>

#include "kernels/narrow_float.h"
#include "kernels/write_mode.h"

namespace hyc::kernels {

// x, y, dy, dx: [samples, groups, channels, positions], of T: float, Bf16 or F16; scale, bias, dscale, dbias: [groups,
// channels]; mean, rstd: [samples, groups].
struct GroupNormDesc {
  int64_t samples = 0, groups = 0, channels = 0, positions = 0;
  double epsilon = 1e-5;
};

// y may be x.
template <typename T>
void groupNormForward(const GroupNormDesc &desc, const T *x, const float *scale, const float *bias, T *y, float *mean,
                      float *rstd);

// dx may be dy.
template <typename T>
void groupNormBackward(const GroupNormDesc &desc, const T *x, const float *scale, const float *mean, const float *rstd,
                       const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode, void *workspace);

// Samples are summed in at most kGroupNormSampleBlocks blocks, each into its own vectors of the workspace: of a channel
// the sums of dy and dy · x̂, of the sample at hand and of those before it.
constexpr int64_t kGroupNormSampleBlocks = 32, kGroupNormVectors = 4;
constexpr int64_t groupNormSamplesPerBlock(const GroupNormDesc &d) {
  return d.samples <= kGroupNormSampleBlocks ? 1 : (d.samples + kGroupNormSampleBlocks - 1) / kGroupNormSampleBlocks;
}
constexpr int64_t groupNormBlocks(const GroupNormDesc &d) {
  return (d.samples + groupNormSamplesPerBlock(d) - 1) / groupNormSamplesPerBlock(d);
}
constexpr size_t groupNormBackwardWorkspaceBytes(const GroupNormDesc &d) {
  return static_cast<size_t>(groupNormBlocks(d) * kGroupNormVectors * d.groups * d.channels) * sizeof(float);
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_GROUP_NORM_OP_H_
