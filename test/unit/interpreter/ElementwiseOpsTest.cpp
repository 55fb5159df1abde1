// Ops that compute each element alone, against values computed by hand.
#include "InterpreterTesting.h"

#include <cmath>
#include <limits>

using namespace hyc::interpreter;

namespace {
const double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

Tensor unary(const std::string &op, const Tensor &x, const Options &options = {}) {
  std::string type = x.describeType();
  return run(function({type}, "%r = hyc." + op + " %0 : " + type, type), {x}, options)[0];
}

Tensor binary(const std::string &op, const Tensor &x, const Tensor &y) {
  std::string type = x.describeType();
  return run(function({type, type}, "%r = hyc." + op + " %0, %1 : " + type, type), {x, y})[0];
}
} // namespace

TEST(ElementwiseOps, UnaryFunctionsOfFloats) {
  Tensor x = f32({4}, {-2, -0.5, 0.25, 3});
  struct Case {
    const char *op;
    double expected[4];
  } cases[] = {
      {"neg", {2, 0.5, -0.25, -3}},
      {"abs", {2, 0.5, 0.25, 3}},
      {"exp", {0.135335283, 0.606530660, 1.284025417, 20.085536923}},
      {"log", {kNan, kNan, -1.386294361, 1.098612289}},
      {"sqrt", {kNan, kNan, 0.5, 1.732050808}},
      {"rsqrt", {kNan, kNan, 2, 0.577350269}},
      {"reciprocal", {-0.5, -2, 4, 0.333333333}},
      {"tanh", {-0.964027580, -0.462117157, 0.244918662, 0.995054754}},
      {"erf", {-0.995322265, -0.520499878, 0.276326390, 0.999977910}},
      {"sin", {-0.909297427, -0.479425539, 0.247403959, 0.141120008}},
      {"cos", {-0.416146837, 0.877582562, 0.968912422, -0.989992497}},
      {"relu", {0, 0, 0.25, 3}},
      {"sigmoid", {0.119202922, 0.377540669, 0.562176501, 0.952574127}},
      {"gelu", {-0.045500264, -0.154268770, 0.149676581, 2.995950300}},
      {"gelu tanh", {-0.045402306, -0.154285998, 0.149675548, 2.996362587}},
  };
  for (const Case &c : cases)
    EXPECT_TRUE(isNear(unary(c.op, x), f32({4}, c.expected))) << c.op;
}

TEST(ElementwiseOps, GeluGradIsTheSlopeOfGelu) {
  Options wide{Arithmetic::Wide};
  std::string type = "tensor<5xf32>";
  std::vector<double> at{-3, -0.7, 0, 0.4, 2.5}, cotangent{1, -2, 3, 0.5, 1};
  for (const char *mode : {"", "tanh "}) {
    std::string op = std::string("%r = hyc.gelu_grad ") + mode + "%0, %1 : " + type;
    Tensor gradient = run(function({type, type}, op, type), {f32({5}, cotangent), f32({5}, at)}, wide)[0];
    for (int i = 0; i < 5; ++i) {
      const double h = 1e-5;
      Tensor shifted = Tensor::fromDoubles(ElementKind::F64, {5}, {at[i] + h, at[i] - h, 0, 0, 0});
      std::string forward = std::string("%r = hyc.gelu ") + mode + "%0 : " + type;
      Tensor values = run(function({type}, forward, type), {shifted}, wide)[0];
      double slope = (values.getDouble(0) - values.getDouble(1)) / (2 * h);
      // f32 arguments round `at`, so that the analytic slope is taken a hair away.
      EXPECT_NEAR(gradient.getDouble(i), cotangent[i] * slope, 1e-7) << mode << at[i];
    }
  }
}

TEST(ElementwiseOps, BinaryFunctionsOfFloats) {
  Tensor x = f32({4}, {1, -2, 4, 0.5}), y = f32({4}, {2, 3, 0.5, -1});
  EXPECT_TRUE(isNear(binary("add", x, y), f32({4}, {3, 1, 4.5, -0.5})));
  EXPECT_TRUE(isNear(binary("sub", x, y), f32({4}, {-1, -5, 3.5, 1.5})));
  EXPECT_TRUE(isNear(binary("mul", x, y), f32({4}, {2, -6, 2, -0.5})));
  EXPECT_TRUE(isNear(binary("div", x, y), f32({4}, {0.5, -0.666666667, 8, -0.5})));
  EXPECT_TRUE(isNear(binary("pow", x, y), f32({4}, {1, -8, 2, 2})));
  EXPECT_TRUE(isNear(binary("max", x, y), f32({4}, {2, 3, 4, 0.5})));
  EXPECT_TRUE(isNear(binary("min", x, y), f32({4}, {1, -2, 0.5, -1})));
}

TEST(ElementwiseOps, MaxAndMinKeepNanOfEitherSide) {
  Tensor x = f32({3}, {kNan, 1, 2}), y = f32({3}, {1, kNan, kInf});
  EXPECT_TRUE(isNear(binary("max", x, y), f32({3}, {kNan, kNan, kInf})));
  EXPECT_TRUE(isNear(binary("min", x, y), f32({3}, {kNan, kNan, 2})));
}

TEST(ElementwiseOps, IntegersWrapAndTruncate) {
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  EXPECT_TRUE(binary("add", i64({1}, {most}), i64({1}, {1})).isIdenticalTo(i64({1}, {least})));
  EXPECT_TRUE(binary("mul", i64({2}, {-3, 5}), i64({2}, {7, 5})).isIdenticalTo(i64({2}, {-21, 25})));
  EXPECT_TRUE(binary("div", i64({3}, {-7, 7, least}), i64({3}, {2, -2, -1})).isIdenticalTo(i64({3}, {-3, -3, least})));
  EXPECT_TRUE(binary("pow", i64({2}, {-3, 2}), i64({2}, {3, 10})).isIdenticalTo(i64({2}, {-27, 1024})));
  EXPECT_TRUE(unary("neg", i64({2}, {4, -5})).isIdenticalTo(i64({2}, {-4, 5})));
  Tensor narrow = Tensor::fromIntegers(ElementKind::I32, {1}, {2147483647});
  EXPECT_EQ(binary("add", narrow, narrow).getInteger(), -2);
}

TEST(ElementwiseOps, IntegerDivisionByZeroIsADiagnostic) {
  std::string text =
      function({"tensor<2xi64>", "tensor<2xi64>"}, "%r = hyc.div %0, %1 : tensor<2xi64>", "tensor<2xi64>");
  EXPECT_EQ(runToFailure(text, {i64({2}, {1, 1}), i64({2}, {1, 0})}), "integer division by zero, at element 1\n");
}

TEST(ElementwiseOps, TranscendentalFunctionOfIntegersIsADiagnostic) {
  std::string text = function({"tensor<i64>"}, "%r = hyc.exp %0 : tensor<i64>", "tensor<i64>");
  EXPECT_EQ(runToFailure(text, {i64({}, {1})}), "the interpreter knows no 'hyc.exp' of integers\n");
}

TEST(ElementwiseOps, Booleans) {
  Tensor x = i1({4}, {0, 0, 1, 1}), y = i1({4}, {0, 1, 0, 1});
  EXPECT_TRUE(binary("and", x, y).isIdenticalTo(i1({4}, {0, 0, 0, 1})));
  EXPECT_TRUE(binary("or", x, y).isIdenticalTo(i1({4}, {0, 1, 1, 1})));
  EXPECT_TRUE(unary("not", x).isIdenticalTo(i1({4}, {1, 1, 0, 0})));
}

TEST(ElementwiseOps, ComparisonsWithNanAreFalseExceptNe) {
  struct Case {
    const char *predicate;
    int64_t expected[4];
  } cases[] = {{"eq", {0, 1, 0, 0}}, {"ne", {1, 0, 1, 1}}, {"lt", {1, 0, 0, 0}},
               {"le", {1, 1, 0, 0}}, {"gt", {0, 0, 1, 0}}, {"ge", {0, 1, 1, 0}}};
  std::string type = "tensor<4xf32>";
  for (const Case &c : cases) {
    std::string op =
        std::string("%r = hyc.compare ") + c.predicate + " %0, %1 : (" + type + ", " + type + ") -> tensor<4xi1>";
    Tensor result =
        run(function({type, type}, op, "tensor<4xi1>"), {f32({4}, {1, 2, 3, kNan}), f32({4}, {2, 2, 2, 1})})[0];
    EXPECT_TRUE(isNear(result, i1({4}, c.expected))) << c.predicate;
  }
}

TEST(ElementwiseOps, SelectTakesFromEitherSide) {
  std::string op = "%r = hyc.select %0, %1, %2 : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>";
  Tensor result = run(function({"tensor<3xi1>", "tensor<3xf32>", "tensor<3xf32>"}, op, "tensor<3xf32>"),
                      {i1({3}, {1, 0, 1}), f32({3}, {1, 2, 3}), f32({3}, {-1, -2, -3})})[0];
  EXPECT_TRUE(isNear(result, f32({3}, {1, -2, 3})));
}

TEST(ElementwiseOps, ConversionToIntegersTruncatesAndSaturates) {
  std::string op = "%r = hyc.convert %0 : (tensor<5xf32>) -> tensor<5xi32>";
  Tensor result = run(function({"tensor<5xf32>"}, op, "tensor<5xi32>"), {f32({5}, {1.9, -1.9, 1e20, kNan, -kInf})})[0];
  EXPECT_TRUE(isNear(result, Tensor::fromIntegers(ElementKind::I32, {5}, {1, -1, 2147483647, 0, -2147483648LL})));
}

TEST(ElementwiseOps, ConversionToBooleansComparesWithZero) {
  std::string op = "%r = hyc.convert %0 : (tensor<3xf32>) -> tensor<3xi1>";
  EXPECT_TRUE(
      isNear(run(function({"tensor<3xf32>"}, op, "tensor<3xi1>"), {f32({3}, {0.5, 0, -2})})[0], i1({3}, {1, 0, 1})));
}

TEST(ElementwiseOps, ConstantsAndIota) {
  EXPECT_TRUE(
      isNear(run(function({}, "%r = hyc.constant dense<[[1.5, -2.0]]> : tensor<1x2xf32>", "tensor<1x2xf32>"), {})[0],
             f32({1, 2}, {1.5, -2})));
  EXPECT_TRUE(isNear(run(function({}, "%r = hyc.constant dense<true> : tensor<2xi1>", "tensor<2xi1>"), {})[0],
                     i1({2}, {1, 1})));
  EXPECT_TRUE(isNear(run(function({}, "%r = hyc.iota dim 0 : tensor<2x3xi64>", "tensor<2x3xi64>"), {})[0],
                     i64({2, 3}, {0, 0, 0, 1, 1, 1})));
  EXPECT_TRUE(isNear(run(function({}, "%r = hyc.iota dim 1 : tensor<2x3xf32>", "tensor<2x3xf32>"), {})[0],
                     f32({2, 3}, {0, 1, 2, 0, 1, 2})));
}

TEST(ElementwiseOps, AsTypedRoundsEveryOpAndWideNone) {
  std::string text = function({"tensor<f32>", "tensor<f32>"}, R"(%a = hyc.add %0, %1 : tensor<f32>
  %r = hyc.sub %a, %0 : tensor<f32>)",
                              "tensor<f32>");
  llvm::SmallVector<Tensor> arguments{f32({}, {1}), f32({}, {0x1p-30})};
  EXPECT_EQ(run(text, arguments)[0].getDouble(), 0);
  Tensor wide = run(text, arguments, Options{Arithmetic::Wide})[0];
  EXPECT_EQ(wide.getKind(), ElementKind::F64);
  EXPECT_EQ(wide.getDouble(), 0x1p-30);
}
