// Convolutions, pooling and resampling.
#include "device_test.h"
#include "kernels/convolution/cuda.h"
#include "kernels/convolution/reference.h"
#include "kernels/gemm/cuda.h"
#include "kernels/pooling/cuda.h"
#include "kernels/pooling/reference.h"
#include "kernels/resample/cuda.h"
#include "kernels/resample/reference.h"

namespace hyc::kernels::cuda {
namespace {

struct Windows : CudaTest {};

// How many positions a window of `kernel` elements has; `low` and `high` are padded.
int64_t positionsOf(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t low, int64_t high) {
  return (size + low + high - dilation * (kernel - 1) - 1) / stride + 1;
}

// One image dimension of 9 rows, one of 11 columns, a window of 3 × 2.
ConvolutionDesc describe(int64_t channels, int64_t outputs, int64_t groups, int64_t stride, int64_t dilation,
                         int64_t low) {
  ConvolutionDesc d;
  d.batch = 2, d.channels = channels, d.outputs = outputs, d.groups = groups;
  d.size[1] = 9, d.size[2] = 11, d.kernel[1] = 3, d.kernel[2] = 2;
  for (const int i : {1, 2}) {
    d.stride[i] = stride, d.dilation[i] = dilation, d.low[i] = low;
    d.positions[i] = positionsOf(d.size[i], d.kernel[i], stride, dilation, low, 1);
  }
  return d;
}

void expectConvolution(const ConvolutionDesc &d) {
  SCOPED_TRACE(testing::Message() << d.channels << " channels in " << d.groups << " groups, stride " << d.stride[2]
                                  << ", dilation " << d.dilation[2]);
  const int64_t xs = d.batch * d.channels * d.sizes(), ys = d.batch * d.outputs * d.places();
  const int64_t ws = d.outputs * d.groupChannels() * d.kernels();
  const auto x = randomValues<float>(xs, 1), w = randomValues<float>(ws, 2), y = randomValues<float>(ys, 3);
  DeviceArray<float> dX(x), dW(w), dY(y), gotX(xs), gotY(ys), columns(convolutionColumns(d));
  DeviceArray<uint8_t> workspace(kGemmWorkspaceBytes);
  Doubles wantY(static_cast<size_t>(ys)), wantX(static_cast<size_t>(xs));
  reference::convolution(d, widened(x).data(), widened(w).data(), wantY.data());
  convolution(nullptr, d, dX, dW, gotY, columns, workspace);
  EXPECT_LT(relativeError(gotY.readDoubles(), wantY), 2e-6);
  reference::convolutionTranspose(d, widened(y).data(), widened(w).data(), wantX.data());
  convolutionTranspose(nullptr, d, dY, dW, gotX, columns, workspace);
  EXPECT_LT(relativeError(gotX.readDoubles(), wantX), 2e-6);
  for (const WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
    const auto before = randomValues<float>(ws, 4);
    Doubles wantW = widened(before);
    reference::convolutionWeight(d, widened(x).data(), widened(y).data(), wantW.data(), mode);
    DeviceArray<float> gotW(before);
    convolutionWeight(nullptr, d, dX, dY, gotW, columns, mode, workspace);
    EXPECT_LT(relativeError(gotW.readDoubles(), wantW), 3e-6);
  }
}

TEST_F(Windows, ConvolutionsEqualThePlainLoops) {
  expectConvolution(describe(3, 5, 1, 1, 1, 1));
  expectConvolution(describe(4, 6, 1, 2, 2, 2));
  expectConvolution(describe(24, 32, 2, 1, 1, 0)); // groups as products
  expectConvolution(describe(6, 9, 3, 2, 1, 1));   // groups directly
  expectConvolution(describe(7, 7, 7, 1, 2, 2));   // a group a channel
  ConvolutionDesc volume = describe(2, 3, 1, 1, 1, 1);
  volume.size[0] = 4, volume.kernel[0] = 2, volume.stride[0] = 2;
  volume.positions[0] = positionsOf(4, 2, 2, 1, 0, 0);
  expectConvolution(volume);
}

template <typename T> void expectMaxPool(int64_t low) {
  PoolingDesc d;
  d.planes = 5;
  d.size[1] = 9, d.size[2] = 12, d.window[1] = 3, d.window[2] = 2;
  for (const int i : {1, 2}) {
    d.stride[i] = 2, d.low[i] = low;
    d.positions[i] = positionsOf(d.size[i], d.window[i], 2, 1, low, low);
  }
  auto x = randomValues<T>(d.planes * d.sizes(), 1);
  x[3] = x[4] = T(2.0f); // equal ones: the first
  x[40] = T(std::nanf(""));
  const int64_t elements = d.planes * d.places();
  Doubles wide = widened(x), want(static_cast<size_t>(elements));
  std::vector<int64_t> wantIndices(want.size());
  reference::maxPool(d, wide.data(), want.data(), wantIndices.data());
  DeviceArray<T> dX(x), got(elements);
  DeviceArray<int64_t> gotIndices(elements);
  maxPool<T>(nullptr, d, dX, got, gotIndices);
  EXPECT_EQ(gotIndices.read(), wantIndices);
  const Doubles values = got.readDoubles();
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(values[i] == want[i] || (std::isnan(values[i]) && std::isnan(want[i]))) << i;
}

TEST_F(Windows, MaximaAreTheFirstAndNaNIsAboveAll) {
  expectMaxPool<float>(0);
  expectMaxPool<Bf16>(1);
  expectMaxPool<F16>(4); // windows of padding alone
}

template <typename T> void expectResample(const ResampleDesc &d, double tolerance) {
  std::vector<int64_t> firsts;
  int64_t count = 0;
  for (int i = 0; i < kResampledDims; ++i)
    for (int64_t t = 0; d.taps[i] > 0 && t < d.to[i]; ++t, count += d.taps[i])
      firsts.push_back(t * (d.from[i] - d.taps[i]) / d.to[i]);
  const auto weights = randomValues<float>(count, 2);
  const auto x = randomValues<T>(d.outer * d.from[0] * d.from[1] * d.from[2] * d.inner, 1);
  Doubles want(static_cast<size_t>(d.outer * d.to[0] * d.to[1] * d.to[2] * d.inner));
  reference::resample(d, widened(x).data(), firsts.data(), widened(weights).data(), want.data());
  DeviceArray<T> dX(x), got(static_cast<int64_t>(want.size()));
  DeviceArray<int64_t> dFirsts(firsts);
  DeviceArray<float> dWeights(weights);
  resample<T>(nullptr, d, dX, dFirsts, dWeights, got);
  const Doubles values = got.readDoubles();
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], want[i], tolerance) << "element " << i;
}

TEST_F(Windows, ResamplesOneToThreeDimensions) {
  expectResample<float>({7, 1, {1, 1, 9}, {1, 1, 20}, {0, 0, 2}}, 1e-5);
  expectResample<float>({3, 5, {1, 8, 9}, {1, 4, 30}, {0, 7, 4}}, 1e-5);
  expectResample<float>({2, 3, {4, 5, 6}, {9, 3, 11}, {2, 3, 1}}, 1e-5);
  expectResample<Bf16>({3, 1, {1, 8, 9}, {1, 13, 12}, {0, 2, 4}}, 2e-2);
  expectResample<F16>({3, 1, {1, 8, 9}, {1, 13, 12}, {0, 2, 4}}, 3e-3);
}

} // namespace
} // namespace hyc::kernels::cuda
