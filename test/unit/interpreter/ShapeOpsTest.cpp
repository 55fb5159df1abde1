// Ops that rearrange, combine or contract elements. Rearrangements are written out by hand; einsum and softmax values
// are PyTorch's (torch.einsum, torch.softmax in f64).
#include "InterpreterTesting.h"

#include <cmath>
#include <limits>

using namespace hyc::interpreter;

namespace {
const Tensor kCounting = f32({2, 3}, {0, 1, 2, 3, 4, 5});

/// The only result of `op`, written with operands %0, …, from `type` to `resultType`.
Tensor apply(const std::string &op, const std::string &type, const std::string &resultType, const Tensor &x) {
  return run(function({type}, "%r = hyc." + op + " : (" + type + ") -> " + resultType, resultType), {x})[0];
}
} // namespace

TEST(ShapeOps, ReshapeKeepsRowMajorOrder) {
  EXPECT_TRUE(
      isNear(apply("reshape %0", "tensor<2x3xf32>", "tensor<3x2xf32>", kCounting), f32({3, 2}, {0, 1, 2, 3, 4, 5})));
}

TEST(ShapeOps, TransposePermutesDimensions) {
  EXPECT_TRUE(isNear(apply("transpose %0 [1, 0]", "tensor<2x3xf32>", "tensor<3x2xf32>", kCounting),
                     f32({3, 2}, {0, 3, 1, 4, 2, 5})));
  Tensor cube = i64({2, 1, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(isNear(apply("transpose %0 [2, 0, 1]", "tensor<2x1x3xi64>", "tensor<3x2x1xi64>", cube),
                     i64({3, 2, 1}, {0, 3, 1, 4, 2, 5})));
}

TEST(ShapeOps, BroadcastRepeatsAlongNewDimensions) {
  Tensor x = f32({2}, {1, 2});
  EXPECT_TRUE(
      isNear(apply("broadcast %0 [0]", "tensor<2xf32>", "tensor<2x3xf32>", x), f32({2, 3}, {1, 1, 1, 2, 2, 2})));
  EXPECT_TRUE(
      isNear(apply("broadcast %0 [1]", "tensor<2xf32>", "tensor<3x2xf32>", x), f32({3, 2}, {1, 2, 1, 2, 1, 2})));
  EXPECT_TRUE(isNear(apply("broadcast %0 []", "tensor<f32>", "tensor<2xf32>", f32({}, {7})), f32({2}, {7, 7})));
}

TEST(ShapeOps, SliceTakesStridedElements) {
  EXPECT_TRUE(isNear(apply("slice %0 offsets [0, 0] strides [1, 2]", "tensor<2x3xf32>", "tensor<2x2xf32>", kCounting),
                     f32({2, 2}, {0, 2, 3, 5})));
  EXPECT_TRUE(isNear(apply("slice %0 offsets [1, 1] strides [1, 1]", "tensor<2x3xf32>", "tensor<1x2xf32>", kCounting),
                     f32({1, 2}, {4, 5})));
}

TEST(ShapeOps, PadPutsZerosAroundAndBetween) {
  EXPECT_TRUE(isNear(apply("pad %0 offsets [1] strides [2]", "tensor<2xf32>", "tensor<5xf32>", f32({2}, {3, 4})),
                     f32({5}, {0, 3, 0, 4, 0})));
}

TEST(ShapeOps, SplitGivesConsecutiveParts) {
  std::string text = R"(hyc.func @f(%0: tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x2xf32>) {
    %a, %b = hyc.split %0 dim 1 : (tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x2xf32>)
    hyc.return %a, %b : tensor<2x1xf32>, tensor<2x2xf32>
  })";
  std::vector<Tensor> parts = run(text, {kCounting});
  EXPECT_TRUE(isNear(parts[0], f32({2, 1}, {0, 3})));
  EXPECT_TRUE(isNear(parts[1], f32({2, 2}, {1, 2, 4, 5})));
}

TEST(ShapeOps, ConcatJoinsParts) {
  std::string op = "%r = hyc.concat %0, %1 dim 1 : (tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x3xf32>";
  Tensor joined = run(function({"tensor<2x1xf32>", "tensor<2x2xf32>"}, op, "tensor<2x3xf32>"),
                      {f32({2, 1}, {9, 8}), f32({2, 2}, {1, 2, 3, 4})})[0];
  EXPECT_TRUE(isNear(joined, f32({2, 3}, {9, 1, 2, 8, 3, 4})));
}

TEST(ShapeOps, ReduceOverAnyDimensions) {
  EXPECT_TRUE(isNear(apply("reduce sum %0 [0]", "tensor<2x3xf32>", "tensor<3xf32>", kCounting), f32({3}, {3, 5, 7})));
  EXPECT_TRUE(isNear(apply("reduce sum %0 [0, 1]", "tensor<2x3xf32>", "tensor<f32>", kCounting), f32({}, {15})));
  EXPECT_TRUE(isNear(apply("reduce max %0 [1]", "tensor<2x3xf32>", "tensor<2xf32>", kCounting), f32({2}, {2, 5})));
  EXPECT_TRUE(isNear(apply("reduce min %0 [1]", "tensor<2x3xi64>", "tensor<2xi64>", i64({2, 3}, {4, -1, 2, 0, 9, 3})),
                     i64({2}, {-1, 0})));
}

TEST(ShapeOps, ReduceMaxKeepsNan) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(isNear(apply("reduce max %0 [1]", "tensor<2x2xf32>", "tensor<2xf32>", f32({2, 2}, {nan, 1, 1, nan})),
                     f32({2}, {nan, nan})));
}

TEST(ShapeOps, EinsumBatchesAndTransposes) {
  Tensor a = f32({2, 2, 3}, {-0.25, -1.625, -0.625, -0.125, 0.875, 0.375, 0.125, 0.5, 2, -0.5, 0.625, 0.25});
  Tensor b = f32({3, 2, 2}, {0.25, -0.875, -1.875, -1.125, 0.75, -0.75, 1.75, -0.375, 1.375, 1.125, -2, 1.75});
  Tensor expected = f32({2, 2, 2}, {-2.140625, 1.140625, 1.765625, 0.25, -1.125, 1.015625, 3.171875, 0.765625});
  std::string op =
      R"(%r = hyc.einsum "bik,kjb->jbi" %0, %1 : (tensor<2x2x3xf32>, tensor<3x2x2xf32>) -> tensor<2x2x2xf32>)";
  EXPECT_TRUE(
      isNear(run(function({"tensor<2x2x3xf32>", "tensor<3x2x2xf32>"}, op, "tensor<2x2x2xf32>"), {a, b})[0], expected));
}

TEST(ShapeOps, EinsumWithoutContractionIsAnOuterProduct) {
  Tensor a = f32({2, 3}, {0.875, -1.875, -0.25, -1.5, 0.125, -1.5}), b = f32({2}, {0, 2});
  Tensor expected = f32({2, 2, 3}, {0, 0, 0, 0, 0, 0, 1.75, -3.75, -0.5, -3, 0.25, -3});
  std::string op = R"(%r = hyc.einsum "ab,c->cab" %0, %1 : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x2x3xf32>)";
  EXPECT_TRUE(
      isNear(run(function({"tensor<2x3xf32>", "tensor<2xf32>"}, op, "tensor<2x2x3xf32>"), {a, b})[0], expected));
}

TEST(ShapeOps, LargeEinsumAgreesWithThePlainSum) {
  const int64_t m = 7, k = 33, n = 301; // past the blocks of rows and columns
  std::vector<double> a(m * k), b(k * n);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = std::sin(0.7 * static_cast<double>(i));
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = std::cos(0.3 * static_cast<double>(i));
  std::vector<double> expected(m * n, 0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t p = 0; p < k; ++p)
        expected[i * n + j] += a[i * k + p] * b[p * n + j];
  std::string op =
      R"(%r = hyc.einsum "mk,kn->mn" %0, %1 : (tensor<7x33xf64>, tensor<33x301xf64>) -> tensor<7x301xf64>)";
  Tensor product =
      run(function({"tensor<7x33xf64>", "tensor<33x301xf64>"}, op, "tensor<7x301xf64>"),
          {Tensor::fromDoubles(ElementKind::F64, {m, k}, a), Tensor::fromDoubles(ElementKind::F64, {k, n}, b)})[0];
  EXPECT_TRUE(isNear(product, Tensor::fromDoubles(ElementKind::F64, {m, n}, expected), 1e-13));
}

TEST(ShapeOps, SoftmaxAlongTheLastDimension) {
  Tensor x = f32({2, 4}, {0.5, -1.375, 0.375, -0.5, -1.875, -0.125, -1.625, -1.125});
  Tensor expected =
      f32({2, 4}, {0.41601988, 0.063798714, 0.36713625, 0.15304516, 0.098467568, 0.56664173, 0.12643486, 0.20845584});
  std::string op = "%r = hyc.softmax %0 : tensor<2x4xf32>";
  EXPECT_TRUE(isNear(run(function({"tensor<2x4xf32>"}, op, "tensor<2x4xf32>"), {x})[0], expected));
  Tensor large =
      run(function({"tensor<2x4xf32>"}, op, "tensor<2x4xf32>"), {f32({2, 4}, {1000, 1000, 0, 0, 0, 0, 0, 0})})[0];
  EXPECT_TRUE(isNear(large, f32({2, 4}, {0.5, 0.5, 0, 0, 0.25, 0.25, 0.25, 0.25})));
}
