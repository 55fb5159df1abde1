// Convolutions over up to three spatial dimensions, in groups: y of x and w, x of y and w, w of x and y. The three are
// the partial derivatives of one form, Σ x[n, c, p·stride + k·dilation − low] · w[o, c', k] · y[n, o, p].
//
// By matrix products over the patches (columns) of one sample at a time, or of several that are small, laid out in a
// workspace; with several groups, each of few channels, by direct loops. The surprise: which of both is a question of
// the groups alone, never of how many samples or channels a rank holds, so that a shard has the bits of the whole.
#ifndef HYC_KERNELS_CONVOLUTION_OP_H_
#define HYC_KERNELS_CONVOLUTION_OP_H_

#include <cstdint>

#include "kernels/write_mode.h"

namespace hyc::kernels {

// Places of a product that are worth going over its other operand anew.
constexpr int64_t kFewestPlaces = 512;

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
  // Whether x is made of y as y is of x, with the weights turned: of large planes, since turning goes over all weights.
  constexpr bool isTurned() const {
    return !isDirect() && stride[0] * stride[1] * stride[2] == 1 && places() >= kFewestPlaces;
  }
};

// Where one sample's tensors of one group begin.
struct ConvolutionPart {
  int64_t x, w, y;
};
constexpr ConvolutionPart partOf(const ConvolutionDesc &d, int64_t sample, int64_t group) {
  return {(sample * d.channels + group * d.groupChannels()) * d.sizes(),
          group * d.groupOutputs() * d.groupChannels() * d.kernels(),
          (sample * d.outputs + group * d.groupOutputs()) * d.places()};
}
// body(sample, part), in ascending order.
template <typename Body>
void forEachPart(const ConvolutionDesc &d, Body body) {
  for (int64_t n = 0; n < d.batch; ++n)
    for (int64_t g = 0; g < d.groups; ++g) body(n, partOf(d, n, g));
}

// Floats of one sample's patches of one group: [channels · kernel, places].
constexpr int64_t convolutionPatches(const ConvolutionDesc &d) { return d.groupChannels() * d.kernels() * d.places(); }

// Of how many samples patches lie side by side, where y and x are made on CPUs: of enough for a product whose columns
// are worth packing the weights, which it does anew each time. Elements keep their bits, which are of their own column.
constexpr int64_t kConvolutionPlaces = 256;
constexpr int64_t convolutionSamples(const ConvolutionDesc &d) {
  const int64_t places = d.places() > 0 ? d.places() : 1, enough = (kConvolutionPlaces + places - 1) / places;
  return enough < d.batch ? enough : d.batch > 0 ? d.batch : 1;
}

// Floats of `columns`, which the functions below need: patches, and of several samples the same of y; or turned weights
// and patches of y, of a part of the places.
constexpr int64_t convolutionColumns(const ConvolutionDesc &d) {
  if (d.isDirect()) return 0;
  const int64_t samples = convolutionSamples(d);
  const int64_t all = samples * (convolutionPatches(d) + (samples > 1 ? d.groupOutputs() * d.places() : 0));
  const int64_t turned = d.groupOutputs() * d.kernels() * (d.groupChannels() + kFewestPlaces);
  return d.places() >= kFewestPlaces && turned > all ? turned : all;
}

// Objects that are compiled for an instruction set share no function with the rest of the program: the linker might
// keep theirs, at which every other CPU stops.
#define HYC_SHAPE_INLINE __attribute__((always_inline)) constexpr

// Direct loops work on planes (direct.h): of x, its padding included and split by the stride into phases, or of y. A
// plane's rows are as long as positions and what a kernel reaches beyond them.
struct DirectPlane {
  int64_t reach[3] = {0, 0, 0}, pitch[3] = {1, 1, 1}, phase[3] = {1, 1, 1};

  constexpr int64_t phases() const { return phase[0] * phase[1] * phase[2]; }
  constexpr int64_t floats() const { return pitch[0] * pitch[1] * pitch[2]; }
  // Zeros before a plane of y, for the elements of x that precede its first position.
  constexpr int64_t lead() const { return (reach[0] * pitch[1] + reach[1]) * pitch[2] + reach[2]; }
  // Up to the last position, counted along the plane.
  constexpr int64_t reached() const {
    return ((pitch[0] - reach[0] - 1) * pitch[1] + pitch[1] - reach[1] - 1) * pitch[2] + pitch[2] - reach[2];
  }
  // Of memory: vectors run over the end. A multiple of a line.
  static constexpr int64_t kOver = 64, kLine = 16;
  constexpr int64_t room() const { return (lead() + floats() + kOver + kLine - 1) / kLine * kLine; }
};
HYC_SHAPE_INLINE DirectPlane directPlane(const ConvolutionDesc &d) {
  DirectPlane plane;
  for (int i = 0; i < 3; ++i) {
    const int64_t last = (d.kernel[i] - 1) * d.dilation[i];
    plane.reach[i] = last / d.stride[i];
    plane.pitch[i] = d.positions[i] + plane.reach[i];
    plane.phase[i] = last + 1 < d.stride[i] ? last + 1 : d.stride[i];
  }
  return plane;
}
HYC_SHAPE_INLINE int64_t directTableFloats(const ConvolutionDesc &d) {
  const int64_t words = 2 * d.kernels() + directPlane(d).phases();  // of 8 bytes
  return (2 * words + d.kernels() + DirectPlane::kLine - 1) / DirectPlane::kLine * DirectPlane::kLine;
}
// Floats of workspace that each thread wants of a direct convolution.
HYC_SHAPE_INLINE int64_t directFloats(const ConvolutionDesc &d) {
  const DirectPlane plane = directPlane(d);
  const int64_t ofX = d.groupChannels() * plane.phases(), ofY = d.groupOutputs();
  return directTableFloats(d) + ((ofX > ofY ? ofX : ofY) + 1) * plane.room();
}

// `columns` holds convolutionColumns(desc) floats, `gemmWorkspace` what kernels/gemm/op.h asks for of the largest
// product, or directFloats(desc) for each thread of a direct one, or is null.
void convolution(const ConvolutionDesc &desc, const float *x, const float *w, float *y, float *columns,
                 void *gemmWorkspace = nullptr);
void convolutionTranspose(const ConvolutionDesc &desc, const float *y, const float *w, float *x, float *columns,
                          void *gemmWorkspace = nullptr);
// w = or += …; samples are added one by one in ascending order.
void convolutionWeight(const ConvolutionDesc &desc, const float *x, const float *y, float *w, float *columns,
                       WriteMode mode, void *gemmWorkspace = nullptr);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_CONVOLUTION_OP_H_
