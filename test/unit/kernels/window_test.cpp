// Convolution in its three directions and pooling against plain loops.
#include <string>

#include "kernel_test.h"
#include "kernels/convolution/reference.h"
#include "kernels/pooling/reference.h"

namespace hyc::kernels {
namespace {

struct ConvolutionCase {
  std::string name;
  ConvolutionDesc desc;
};

// Positions follow from the rest and what is padded at the end.
ConvolutionDesc describe(ConvolutionDesc d, int64_t high) {
  for (int i = 0; i < 3; ++i)
    if (d.kernel[i] > 1 || d.stride[i] > 1 || d.size[i] > 1)
      d.positions[i] =
          (d.size[i] + d.low[i] + (d.low[i] ? high : 0) - d.dilation[i] * (d.kernel[i] - 1) - 1) / d.stride[i] + 1;
  return d;
}

const std::vector<ConvolutionCase> kConvolutions = {
    {"line", describe({.batch = 3, .channels = 5, .outputs = 7, .size = {1, 1, 41}, .kernel = {1, 1, 4}}, 0)},
    {"image",
     describe({.batch = 2, .channels = 16, .outputs = 33, .size = {1, 29, 31}, .kernel = {1, 3, 3}, .low = {0, 1, 1}},
              1)},
    {"strided", describe({.batch = 2,
                          .channels = 3,
                          .outputs = 9,
                          .size = {1, 23, 27},
                          .kernel = {1, 7, 5},
                          .stride = {1, 2, 3},
                          .low = {0, 3, 2}},
                         2)},
    {"strided_by_two", describe({.batch = 2,
                                 .channels = 3,
                                 .outputs = 5,
                                 .size = {1, 12, 71},
                                 .kernel = {1, 4, 5},
                                 .stride = {1, 2, 2},
                                 .low = {0, 1, 2}},
                                2)},
    // Columns of a few channels at a time.
    {"many_channels", describe({.batch = 2,
                                .channels = 19,
                                .outputs = 6,
                                .size = {1, 64, 66},
                                .kernel = {1, 4, 4},
                                .stride = {1, 2, 2},
                                .low = {0, 1, 1}},
                               1)},
    // Planes in parts, which end within lines.
    {"large_planes", describe({.batch = 2,
                               .channels = 37,
                               .outputs = 11,
                               .size = {1, 43, 37},
                               .kernel = {1, 3, 5},
                               .dilation = {1, 2, 1},
                               .low = {0, 2, 1}},
                              3)},
    {"large_planes_of_groups", describe({.batch = 2,
                                         .channels = 6,
                                         .outputs = 48,
                                         .groups = 2,
                                         .size = {3, 17, 19},
                                         .kernel = {2, 3, 2},
                                         .low = {0, 4, 1}},
                                        0)},
    {"dilated", describe({.batch = 1,
                          .channels = 4,
                          .outputs = 6,
                          .size = {1, 19, 17},
                          .kernel = {1, 3, 2},
                          .stride = {1, 2, 1},
                          .dilation = {1, 3, 4},
                          .low = {0, 2, 3}},
                         4)},
    {"volume", describe({.batch = 2,
                         .channels = 3,
                         .outputs = 4,
                         .size = {5, 6, 7},
                         .kernel = {2, 3, 2},
                         .stride = {1, 2, 1},
                         .low = {1, 0, 1}},
                        0)},
    {"point", describe({.batch = 2, .channels = 65, .outputs = 17, .size = {1, 6, 6}}, 0)},
    {"groups", describe({.batch = 2,
                         .channels = 6,
                         .outputs = 9,
                         .groups = 3,
                         .size = {1, 9, 11},
                         .kernel = {1, 3, 3},
                         .low = {0, 1, 1}},
                        1)},
    {"wide_groups", describe({.batch = 2,
                              .channels = 24,
                              .outputs = 32,
                              .groups = 2,
                              .size = {1, 7, 9},
                              .kernel = {1, 3, 3},
                              .low = {0, 1, 1}},
                             1)},
    {"each_channel", describe({.batch = 2,
                               .channels = 37,
                               .outputs = 37,
                               .groups = 37,
                               .size = {1, 21, 43},
                               .kernel = {1, 3, 5},
                               .stride = {1, 2, 2},
                               .low = {0, 1, 2}},
                              2)},
    // Three samples at a time, and the last one alone; five of a group, and two.
    {"several_samples",
     describe({.batch = 7, .channels = 12, .outputs = 10, .size = {1, 9, 11}, .kernel = {1, 3, 3}, .low = {0, 1, 1}},
              1)},
    {"several_samples_of_groups", describe({.batch = 7,
                                            .channels = 24,
                                            .outputs = 32,
                                            .groups = 2,
                                            .size = {1, 7, 9},
                                            .kernel = {1, 3, 2},
                                            .stride = {1, 1, 1},
                                            .low = {0, 1, 0}},
                                           1)},
    {"each_channel_of_volumes", describe({.batch = 3,
                                          .channels = 6,
                                          .outputs = 12,
                                          .groups = 6,
                                          .size = {7, 8, 21},
                                          .kernel = {3, 2, 4},
                                          .stride = {2, 1, 3},
                                          .dilation = {1, 2, 1},
                                          .low = {1, 0, 2}},
                                         1)},
    {"window_beyond_the_end",
     describe({.batch = 1, .channels = 2, .outputs = 2, .size = {1, 2, 3}, .kernel = {1, 3, 5}, .low = {0, 2, 4}}, 4)},
};

class Convolution : public testing::TestWithParam<ConvolutionCase> {
 protected:
  const ConvolutionDesc d = GetParam().desc;
  const int64_t xs = d.batch * d.channels * d.sizes(), ys = d.batch * d.outputs * d.places();
  const int64_t ws = d.outputs * d.groupChannels() * d.kernels();
  const Floats x = randomFloats(xs, 1), w = randomFloats(ws, 2), y = randomFloats(ys, 3);
  Floats columns() const { return notANumber(convolutionColumns(d)); }
};

TEST_P(Convolution, OutputIsThatOfThePlainLoops) {
  Doubles want(ys);
  reference::convolution(d, widen(x).data(), widen(w).data(), want.data());
  expectBitsIndependentOfThreads([&] {
    Floats got = notANumber(ys), scratch = columns();
    convolution(d, x.data(), w.data(), got.data(), scratch.data());
    EXPECT_LT(relativeError(got, want), 2e-6);
    return got;
  });
}

TEST_P(Convolution, TransposeIsThatOfThePlainLoops) {
  Doubles want(xs);
  reference::convolutionTranspose(d, widen(y).data(), widen(w).data(), want.data());
  expectBitsIndependentOfThreads([&] {
    Floats got = notANumber(xs), scratch = columns();
    convolutionTranspose(d, y.data(), w.data(), got.data(), scratch.data());
    EXPECT_LT(relativeError(got, want), 2e-6);
    return got;
  });
}

TEST_P(Convolution, WeightsAreThoseOfThePlainLoopsInBothModes) {
  for (WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
    const Floats before = randomFloats(ws, 4);
    Doubles want = widen(before);
    reference::convolutionWeight(d, widen(x).data(), widen(y).data(), want.data(), mode);
    expectBitsIndependentOfThreads([&] {
      Floats got = before, scratch = columns();
      convolutionWeight(d, x.data(), y.data(), got.data(), scratch.data(), mode);
      EXPECT_LT(relativeError(got, want), 3e-6);
      return got;
    });
  }
}

// What one rank of two has of the batch, and of the output channels, has the bits of the whole.
TEST_P(Convolution, ShardsHaveTheBitsOfTheWhole) {
  Floats whole = notANumber(ys), scratch = columns();
  convolution(d, x.data(), w.data(), whole.data(), scratch.data());
  ConvolutionDesc one = d;
  one.batch = 1;
  const int64_t n = d.batch - 1, places = d.outputs * d.places();
  Floats part = notANumber(places);
  convolution(one, x.data() + n * d.channels * d.sizes(), w.data(), part.data(), scratch.data());
  EXPECT_TRUE(sameBits(part, Floats(whole.begin() + n * places, whole.begin() + (n + 1) * places)));
  Floats wholeX = notANumber(xs), partX = notANumber(d.channels * d.sizes());
  convolutionTranspose(d, y.data(), w.data(), wholeX.data(), scratch.data());
  convolutionTranspose(one, y.data() + n * places, w.data(), partX.data(), scratch.data());
  EXPECT_TRUE(sameBits(partX, Floats(wholeX.end() - static_cast<int64_t>(partX.size()), wholeX.end())));
  if (d.groups > 1) return;
  one.outputs = (d.outputs + 1) / 2;
  part.assign(one.outputs * d.places(), NAN);
  convolution(one, x.data(), w.data(), part.data(), scratch.data());
  EXPECT_TRUE(sameBits(part, Floats(whole.begin(), whole.begin() + one.outputs * d.places())));
}

// Sample by sample, and of some of the outputs, weights have the bits that they have of all at once.
TEST_P(Convolution, WeightsOfPartsHaveTheBitsOfTheWhole) {
  Floats whole = notANumber(ws), scratch = columns();
  convolutionWeight(d, x.data(), y.data(), whole.data(), scratch.data(), WriteMode::kOverwrite);
  ConvolutionDesc one = d;
  one.batch = 1;
  Floats bySample = notANumber(ws);
  for (int64_t n = 0; n < d.batch; ++n)
    convolutionWeight(one, x.data() + n * d.channels * d.sizes(), y.data() + n * d.outputs * d.places(),
                      bySample.data(), scratch.data(), n > 0 ? WriteMode::kAccumulate : WriteMode::kOverwrite);
  EXPECT_TRUE(sameBits(whole, bySample));
  if (d.groups > 1) return;
  convolutionWeight(one, x.data(), y.data(), whole.data(), scratch.data(), WriteMode::kOverwrite);
  one.outputs = (d.outputs + 1) / 2;
  Floats part = notANumber(one.outputs * d.channels * d.kernels());
  convolutionWeight(one, x.data(), y.data(), part.data(), scratch.data(), WriteMode::kOverwrite);
  EXPECT_TRUE(sameBits(part, Floats(whole.begin(), whole.begin() + static_cast<int64_t>(part.size()))));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Convolution, testing::ValuesIn(kConvolutions),
                         [](const testing::TestParamInfo<ConvolutionCase> &info) { return info.param.name; });

TEST(MaxPool, EqualsThePlainLoopsWithPlaces) {
  const PoolingDesc cases[] = {
      {.planes = 6,
       .size = {1, 29, 31},
       .window = {1, 3, 3},
       .positions = {1, 15, 16},
       .stride = {1, 2, 2},
       .low = {0, 1, 1}},
      {.planes = 2, .size = {4, 5, 6}, .window = {2, 2, 3}, .positions = {3, 4, 4}},
      {.planes = 3, .size = {1, 1, 50}, .window = {1, 1, 4}, .positions = {1, 1, 44}, .dilation = {1, 1, 2}},
      {.planes = 1, .size = {1, 3, 3}, .window = {1, 1, 1}, .positions = {1, 5, 5}, .low = {0, 1, 1}},
  };
  for (const PoolingDesc &d : cases) {
    Floats x = randomFloats(d.planes * d.sizes(), 5);
    for (size_t i = 0; i < x.size(); i += 7) x[i] = x[x.size() / 2];  // ties
    x[x.size() / 3] = NAN;
    Floats want(d.planes * d.places()), got = notANumber(want.size());
    std::vector<int64_t> wantAt(want.size()), gotAt(want.size());
    reference::maxPool(d, x.data(), want.data(), wantAt.data());
    maxPool(d, x.data(), got.data(), gotAt.data());
    EXPECT_EQ(gotAt, wantAt);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i] == want[i] || (got[i] != got[i] && want[i] != want[i]));
  }
}

}  // namespace
}  // namespace hyc::kernels
