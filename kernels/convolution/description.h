// What programs know of convolutions. The three are called on tensors of the same names: x, w and y.
#ifndef HYC_KERNELS_CONVOLUTION_DESCRIPTION_H_
#define HYC_KERNELS_CONVOLUTION_DESCRIPTION_H_

#include "kernels/convolution/op.h"
#include "kernels/description.h"
#include "kernels/gemm/cuda.h"
#include "kernels/gemm/op.h"

namespace hyc::kernels::described::convolution {

inline int64_t batch(const Call &c) { return c.operand("x").shape[0]; }
inline int64_t channels(const Call &c) { return c.operand("x").shape[1]; }
inline int64_t outputs(const Call &c) { return c.operand("w").shape[0]; }
inline int64_t groups(const Call &c) { return c.integer("groups"); }

inline ConvolutionDesc shapesOf(const Call &c) {
  ConvolutionDesc desc;
  desc.batch = batch(c), desc.channels = channels(c), desc.outputs = outputs(c), desc.groups = groups(c);
  const Sizes kernel = spatial(c, "w"), places = spatial(c, "y"), stride = steps(c, "strides"),
              dilation = steps(c, "dilations");
  for (int i = 0; i < 3; ++i) {
    desc.kernel[i] = kernel.at[i], desc.positions[i] = places.at[i];
    desc.stride[i] = stride.at[i], desc.dilation[i] = dilation.at[i];
  }
  return desc;
}

// Of the product of patches with one group's weights: [m, n, k] of the three kernels differ. Or planes for each thread.
enum class Gives { kY, kX, kW };
template <Gives kGives>
int64_t productWorkspace(const Call &c, int64_t threads) {
  const ConvolutionDesc d = shapesOf(c);
  if (d.isDirect()) return threads * directFloats(d) * static_cast<int64_t>(sizeof(float));
  const int64_t inputs = d.groupChannels() * d.kernels();
  GemmDesc product;
  product.m = d.groupOutputs(), product.n = convolutionSamples(d) * d.places(), product.k = inputs;
  if (kGives == Gives::kX) product.m = inputs, product.k = d.groupOutputs();
  if (kGives == Gives::kX && d.isTurned()) {  // y of x and x of y the other way round: as many places as x has
    const Sizes size = spatial(c, "x");
    const int64_t places = size.at[0] * size.at[1] * size.at[2];
    product.m = d.groupChannels(), product.k = d.groupOutputs() * d.kernels();
    if (places > product.n) product.n = places;
  }
  if (kGives == Gives::kW) product.n = inputs, product.k = d.places();
  return static_cast<int64_t>(gemmWorkspaceBytes(product, static_cast<int>(threads)));
}
inline int64_t cudaProductWorkspace(const Call &c) {
  return c.operand("columns").elements() ? cuda::kGemmWorkspaceBytes : 0;
}

inline double operations(const Call &c) {
  const ConvolutionDesc d = shapesOf(c);
  return 2.0 * static_cast<double>(d.batch) * static_cast<double>(d.outputs) * static_cast<double>(d.places()) *
         static_cast<double>(d.groupChannels()) * static_cast<double>(d.kernels());
}

inline constexpr Field kBatch = size<&ConvolutionDesc::batch>("batch", batch);
inline constexpr Field kChannels = size<&ConvolutionDesc::channels>("channels", channels);
inline constexpr Field kOutputs = size<&ConvolutionDesc::outputs>("outputs", outputs);
inline constexpr Field kGroups = size<&ConvolutionDesc::groups>("groups", groups);
inline constexpr Field kSize = sizes<&ConvolutionDesc::size>("size", spatial, "x");
inline constexpr Field kKernel = sizes<&ConvolutionDesc::kernel>("kernel", spatial, "w");
inline constexpr Field kPositions = sizes<&ConvolutionDesc::positions>("positions", spatial, "y");
inline constexpr Field kStride = sizes<&ConvolutionDesc::stride>("stride", steps, "strides");
inline constexpr Field kDilation = sizes<&ConvolutionDesc::dilation>("dilation", steps, "dilations");
inline constexpr Field kLow = sizes<&ConvolutionDesc::low>("low", margins, "low");

inline constexpr KernelDescription kKernels[] = {
    {.name = "convolution",
     .outs = {{"y"}, {"columns", Role::kScratch}},
     .ins = {{"x"}, {"w"}},
     .comment = "x {x}, weights {w}",
     .fields = {kBatch, kChannels, kOutputs, kGroups, kSize, kKernel, kPositions, kStride, kDilation, kLow},
     .cpu = {"kernels/convolution/op.h", "convolution(#desc, x, w, y, columns[, #workspace])"},
     .cuda = {"kernels/convolution/cuda.h", "convolution(#desc, x, w, y, columns[, #workspace])"},
     .workspace = productWorkspace<Gives::kY>,
     .cudaWorkspace = cudaProductWorkspace,
     .operations = operations},
    {.name = "convolution_transpose",
     .outs = {{"x"}, {"columns", Role::kScratch}},
     .ins = {{"y"}, {"w"}},
     .comment = "x {x}, weights {w}",
     .fields = {kBatch, kChannels, kOutputs, kGroups, kSize, kKernel, kPositions, kStride, kDilation, kLow},
     .cpu = {"kernels/convolution/op.h", "convolutionTranspose(#desc, y, w, x, columns[, #workspace])"},
     .cuda = {"kernels/convolution/cuda.h", "convolutionTranspose(#desc, y, w, x, columns[, #workspace])"},
     .workspace = productWorkspace<Gives::kX>,
     .cudaWorkspace = cudaProductWorkspace,
     .operations = operations},
    {.name = "convolution_weight",
     .outs = {{"w", Role::kByMode}, {"columns", Role::kScratch}},
     .ins = {{"x"}, {"y"}},
     .comment = "x {x}, weights {w}",
     .fields = {kBatch, kChannels, kOutputs, kGroups, kSize, kKernel, kPositions, kStride, kDilation, kLow},
     .cpu = {"kernels/convolution/op.h", "convolutionWeight(#desc, x, y, w, columns, #mode[, #workspace])"},
     .cuda = {"kernels/convolution/cuda.h", "convolutionWeight(#desc, x, y, w, columns, #mode[, #workspace])"},
     .workspace = productWorkspace<Gives::kW>,
     .cudaWorkspace = cudaProductWorkspace,
     .operations = operations},
};

}  // namespace hyc::kernels::described::convolution

#endif  // HYC_KERNELS_CONVOLUTION_DESCRIPTION_H_
