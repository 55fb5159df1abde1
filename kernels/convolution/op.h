// Convolutions over up to three spatial dimensions, in groups: y of x and w, x of y and w, w of x and y. The three are
// the partial derivatives of one form, Σ x[n, c, p·stride + k·dilation − low] · w[o, c', k] · y[n, o, p].
//
// By matrix products over one sample's patches at a time (columns), laid out in a workspace; with several groups, each
// of few channels, by direct loops. The surprise: which of both is a question of the groups alone, never of how many
// samples or channels a rank holds, so that a shard has the bits of the whole.
#ifndef HYC_KERNELS_CONVOLUTION_OP_H_
#define HYC_KERNELS_CONVOLUTION_OP_H_

#include <cstdint>

#include "kernels/write_mode.h"

namespace hyc::kernels {

// x: [batch, channels, size…]; w: [outputs, channels / groups, kernel…]; y: [batch, outputs, positions…]. Fewer than
// three spatial dimensions: the first ones have size 1.
struct ConvolutionDesc {
  int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  int64_t size[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, positions[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, low[3] = {0, 0, 0};

  constexpr int64_t sizes() const { return size[0] * size[1] * size[2]; }
  constexpr int64_t kernels() const { return kernel[0] * kernel[1] * kernel[2]; }
  constexpr int64_t places() const { return positions[0] * positions[1] * positions[2]; }
  constexpr int64_t groupChannels() const { return channels / groups; }
  constexpr int64_t groupOutputs() const { return outputs / groups; }
  constexpr bool isDirect() const { return groups > 1 && groupChannels() * groupOutputs() < 64; }
};

// Where one sample's tensors of one group begin.
struct ConvolutionPart {
  int64_t x, w, y;
};
// body(sample, part), in ascending order.
template <typename Body>
void forEachPart(const ConvolutionDesc &d, Body body) {
  for (int64_t n = 0; n < d.batch; ++n)
    for (int64_t g = 0; g < d.groups; ++g)
      body(n, ConvolutionPart{(n * d.channels + g * d.groupChannels()) * d.sizes(),
                              g * d.groupOutputs() * d.groupChannels() * d.kernels(),
                              (n * d.outputs + g * d.groupOutputs()) * d.places()});
}

// Floats of workspace that the functions below need: one sample's patches of one group.
constexpr int64_t convolutionColumns(const ConvolutionDesc &d) {
  return d.isDirect() ? 0 : d.groupChannels() * d.kernels() * d.places();
}

// `columns` holds convolutionColumns(desc) floats, `gemmWorkspace` what kernels/gemm/op.h asks for of the largest
// product, or is null.
void convolution(const ConvolutionDesc &desc, const float *x, const float *w, float *y, float *columns,
                 void *gemmWorkspace = nullptr);
void convolutionTranspose(const ConvolutionDesc &desc, const float *y, const float *w, float *x, float *columns,
                          void *gemmWorkspace = nullptr);
// w = or += …; samples are added one by one in ascending order.
void convolutionWeight(const ConvolutionDesc &desc, const float *x, const float *y, float *w, float *columns,
                       WriteMode mode, void *gemmWorkspace = nullptr);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_CONVOLUTION_OP_H_
