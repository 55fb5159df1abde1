// Windows, ops by number, running sums and further functions, with values that PyTorch computed for the same operands.
#include "InterpreterTesting.h"

#include <cmath>

using namespace hyc::interpreter;

namespace {
/// 1 to 16, with a -5 in the place of 7.
Tensor image() { return f32({1, 1, 4, 4}, {1, 2, 3, 4, 5, 6, -5, 8, 9, 10, 11, 12, 13, 14, 15, 16}); }
Tensor weights() { return f32({2, 1, 2, 2}, {1, 2, 3, -1, 0, 1, -2, 1}); }
const char *const kWindows = "strides [2, 1] dilations [1, 2] pads [1, 0] [1, 0]";
const Tensor kConvolved = f32({1, 2, 3, 2}, {0, 2, 11, 40, 43, 46, 1, 0, -12, 0, 15, 16});

Tensor apply(const std::string &op, const std::vector<std::string> &types, const std::string &result,
             const std::vector<Tensor> &operands) {
  std::string list;
  for (const std::string &type : types)
    list += (list.empty() ? "" : ", ") + type;
  return run(function(types, "%r = hyc." + op + " : (" + list + ") -> " + result, result), operands)[0];
}
} // namespace

TEST(WindowOps, ConvolutionIsThatOfPyTorch) {
  Tensor y = apply(std::string("convolution %0, %1 ") + kWindows, {"tensor<1x1x4x4xf32>", "tensor<2x1x2x2xf32>"},
                   "tensor<1x2x3x2xf32>", {image(), weights()});
  EXPECT_TRUE(isNear(y, kConvolved));
}

TEST(WindowOps, ConvolutionInGroupsKeepsChannelsApart) {
  Tensor y = apply("convolution %0, %1 strides [1] dilations [1] pads [0] [0] {groups = 2 : i64}",
                   {"tensor<1x2x4xf32>", "tensor<2x1x2xf32>"}, "tensor<1x2x3xf32>",
                   {f32({1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), f32({2, 1, 2}, {1, -1, 2, 3})});
  EXPECT_TRUE(isNear(y, f32({1, 2, 3}, {-1, -1, -1, 28, 33, 38})));
}

TEST(WindowOps, ConvolutionTransposeIsThatOfPyTorch) {
  Tensor x = apply(std::string("convolution_transpose %0, %1 ") + kWindows,
                   {"tensor<1x2x3x2xf32>", "tensor<2x1x2x2xf32>"}, "tensor<1x1x4x4xf32>", {kConvolved, weights()});
  EXPECT_TRUE(isNear(x, f32({1, 1, 4, 4}, {-2, 6, 1, -2, 11, 40, 10, 80, 57, 120, -23, -40, 43, 46, 101, 108})));
}

TEST(WindowOps, ConvolutionWeightIsTheGradientOfPyTorch) {
  Tensor w = apply(std::string("convolution_weight %0, %1 ") + kWindows, {"tensor<1x1x4x4xf32>", "tensor<1x2x3x2xf32>"},
                   "tensor<2x1x2x2xf32>", {image(), f32({1, 2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})});
  EXPECT_TRUE(isNear(w, f32({2, 1, 2, 2}, {188, 188, 72, 92, 416, 392, 204, 272})));
}

TEST(WindowOps, MaxPoolGivesTheLargestAndItsPlace) {
  std::string text = R"(hyc.func @f(%0: tensor<1x1x4x4xf32>) -> (tensor<1x1x5x2xf32>, tensor<1x1x5x2xi64>) {
    %y, %i = hyc.max_pool %0 window [2, 2] strides [1, 2] dilations [1, 1] pads [1, 0] [1, 0]
        : (tensor<1x1x4x4xf32>) -> (tensor<1x1x5x2xf32>, tensor<1x1x5x2xi64>)
    hyc.return %y, %i : tensor<1x1x5x2xf32>, tensor<1x1x5x2xi64>
  })";
  std::vector<Tensor> results = run(text, {image()});
  EXPECT_TRUE(isNear(results[0], f32({1, 1, 5, 2}, {2, 4, 6, 8, 10, 12, 14, 16, 14, 16})));
  EXPECT_TRUE(isNear(results[1], i64({1, 1, 5, 2}, {1, 3, 5, 7, 9, 11, 13, 15, 13, 15})));
}

TEST(WindowOps, ResampleInterpolatesAsPyTorch) {
  Tensor y = apply("resample %0 dim 2 firsts [array<i64: 0, 0, 0, 0>, array<i64: 0, 0, 0, 1, 1, 1>] "
                   "weights [array<f64: 1.0, 0.0, 0.75, 0.25, 0.25, 0.75, 0.0, 1.0>, "
                   "array<f64: 1.0, 0.0, 0.75, 0.25, 0.25, 0.75, 0.75, 0.25, 0.25, 0.75, 0.0, 1.0>]",
                   {"tensor<1x1x2x3xf32>"}, "tensor<1x1x4x6xf32>", {f32({1, 1, 2, 3}, {1, -2, 3, 4, 0.5, -6})});
  EXPECT_TRUE(isNear(y, f32({1, 1, 4, 6}, {1,        0.25,     -1.25,   -0.75, 1.75,  3,       1.75,    0.96875,
                                           -0.59375, -0.84375, 0.21875, 0.75,  3.25,  2.40625, 0.71875, -1.03125,
                                           -2.84375, -3.75,    4,       3.125, 1.375, -1.125,  -4.375,  -6})));
}

TEST(IndexOps, GatherTakesTheSameRowsOrOnesOfEachElement) {
  Tensor table = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(isNear(apply("gather %0, %1 dim 0 batch 0", {"tensor<3x2xf32>", "tensor<4xi64>"}, "tensor<4x2xf32>",
                           {table, i64({4}, {2, 0, -1, 3})}),
                     f32({4, 2}, {5, 6, 1, 2, 0, 0, 0, 0})));
  EXPECT_TRUE(isNear(apply("gather %0, %1 dim 1 batch 1", {"tensor<2x3xf32>", "tensor<2x2xi64>"}, "tensor<2x2xf32>",
                           {f32({2, 3}, {1, 2, 3, 4, 5, 6}), i64({2, 2}, {2, 0, 1, 1})}),
                     f32({2, 2}, {3, 1, 5, 5})));
}

TEST(IndexOps, ScatterAddsWhereIndicesMeet) {
  EXPECT_TRUE(isNear(apply("scatter sum %0, %1 dim 1 batch 1", {"tensor<2x2xi64>", "tensor<2x2xf32>"},
                           "tensor<2x3xf32>", {i64({2, 2}, {2, 0, 1, 1}), f32({2, 2}, {1, 2, 3, 4})}),
                     f32({2, 3}, {2, 0, 1, 0, 7, 0})));
  EXPECT_TRUE(isNear(apply("scatter prod %0, %1 dim 0 batch 0", {"tensor<3xi64>", "tensor<3xf32>"}, "tensor<2xf32>",
                           {i64({3}, {1, 1, 7}), f32({3}, {3, 4, 5})}),
                     f32({2}, {1, 12})));
}

TEST(IndexOps, CumSumAddsForwardsAndBackwards) {
  Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  auto sums = [&](const std::string &form) {
    return run(
        function({"tensor<2x3xf32>"}, "%r = hyc.cumsum %0 dim 1" + form + " : tensor<2x3xf32>", "tensor<2x3xf32>"),
        {x})[0];
  };
  EXPECT_TRUE(isNear(sums(""), f32({2, 3}, {1, 3, 6, 4, 9, 15})));
  EXPECT_TRUE(isNear(sums(" reverse"), f32({2, 3}, {6, 5, 3, 15, 11, 6})));
  EXPECT_TRUE(isNear(sums(" reverse exclusive"), f32({2, 3}, {5, 3, 0, 11, 6, 0})));
}

TEST(IndexOps, ArgSortIsStable) {
  EXPECT_TRUE(isNear(apply("argsort %0", {"tensor<5xf32>"}, "tensor<5xi64>", {f32({5}, {3, 1, 2, 1, NAN})}),
                     i64({5}, {1, 3, 2, 0, 4})));
  EXPECT_TRUE(isNear(apply("argsort descending %0", {"tensor<4xf32>"}, "tensor<4xi64>", {f32({4}, {3, 1, 2, 1})}),
                     i64({4}, {0, 2, 1, 3})));
  EXPECT_TRUE(isNear(apply("argsort descending %0 first 2", {"tensor<2x4xf32>"}, "tensor<2x2xi64>",
                           {f32({2, 4}, {3, 1, 2, 1, 0, 5, 5, 4})}),
                     i64({2, 2}, {0, 2, 1, 2})));
}

TEST(MathOps, AreThoseOfPyTorchAtTheirEdges) {
  auto of = [](const std::string &op, const std::vector<double> &values) {
    std::string type = "tensor<" + std::to_string(values.size()) + "xf32>";
    return run(function({type}, "%r = hyc." + op + " %0 : " + type, type),
               {f32({static_cast<int64_t>(values.size())}, values)})[0];
  };
  EXPECT_TRUE(isNear(of("round", {0.5, 1.5, -2.5}), f32({3}, {0, 2, -2})));
  EXPECT_TRUE(isNear(of("softplus", {-800, 0, 800}), f32({3}, {0, 0.6931471824645996, 800})));
  // Abramowitz and Stegun: Γ(5) = 24, Γ(1/2)² = π; ψ(1) = -γ, ψ(-1/2) = 2 - γ - 2 log 2; ψ'(1) = π²/6, ψ'(-1/2) = π²/2
  // + 4.
  EXPECT_TRUE(isNear(of("lgamma", {1, 0.5, 5}), f32({3}, {0, 0.5723649263381958, 3.178053855895996})));
  EXPECT_TRUE(isNear(of("digamma", {1, -0.5}), f32({2}, {-0.5772156715393066, 0.03648997753858566})));
  EXPECT_TRUE(isNear(of("trigamma", {1, -0.5}), f32({2}, {1.6449340581893921, 8.934802055358887})));
  EXPECT_TRUE(isNear(of("sign", {-3, 0, 2}), f32({3}, {-1, 0, 1})));
  EXPECT_TRUE(isNear(of("floor", {-1.5, 2.5}), f32({2}, {-2, 2})));
  EXPECT_TRUE(isNear(of("ceil", {-1.5, 2.5}), f32({2}, {-1, 3})));
  std::string type = "tensor<2xf32>";
  EXPECT_TRUE(isNear(
      run(function({type, type}, "%r = hyc.rem %0, %1 : " + type, type), {f32({2}, {5.5, -5.5}), f32({2}, {2, 2})})[0],
      f32({2}, {1.5, -1.5})));
  EXPECT_TRUE(
      isNear(run(function({"tensor<2x3xf32>"}, "%r = hyc.reduce prod %0 [1] : (tensor<2x3xf32>) -> " + type, type),
                 {f32({2, 3}, {1, 2, 3, 4, 5, 6})})[0],
             f32({2}, {6, 120})));
}
