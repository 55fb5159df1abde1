// States, norms and updates. The optimizers' values are PyTorch's (torch.optim, f64), or, where it has none, those of
// the papers' formulas (test/unit/kernels/optimizer_values.py).
#include "InterpreterTesting.h"

#include <cmath>
#include <cstdio>

using namespace hyc::interpreter;

namespace {
/// Runs @f with each of `calls` as its only tensor argument list, in order; then gives the state @`name`.
Tensor stateAfter(const std::string &text, const std::vector<std::vector<Tensor>> &calls, const std::string &name) {
  TestModule module(text);
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), {});
  EXPECT_TRUE(succeeded(interpreter)) << module.diagnostics();
  for (const std::vector<Tensor> &arguments : calls)
    EXPECT_TRUE(succeeded(interpreter->call("f", arguments))) << module.diagnostics();
  return *interpreter->getState(name);
}
} // namespace

TEST(UpdateOps, ReadSeesWhatWasWritten) {
  std::vector<Tensor> results = run(R"(
    hyc.state @s role "step" : tensor<2xf32> from #hyc.fill<3.0>
    hyc.func @f(%0: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %before = hyc.read @s : tensor<2xf32>
      hyc.write %0 into @s : tensor<2xf32>
      %after = hyc.read @s : tensor<2xf32>
      hyc.return %before, %after : tensor<2xf32>, tensor<2xf32>
    })",
                                    {f32({2}, {1, 2})});
  EXPECT_TRUE(isNear(results[0], f32({2}, {3, 3})));
  EXPECT_TRUE(isNear(results[1], f32({2}, {1, 2})));
}

TEST(UpdateOps, FirstAccumulationOfAStepOverwritesEvenNan) {
  TestModule module(R"(
    hyc.state @g role "gradient" : tensor<2xf32> from #hyc.fill<0x7FC00000 : f32>
    hyc.func @f(%0: tensor<2xf32>) {
      hyc.accumulate %0 into @g : tensor<2xf32>
      hyc.accumulate %0 into @g : tensor<2xf32>
      hyc.return
    })");
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  ASSERT_TRUE(std::isnan(interpreter->getState("g")->getDouble()));
  for (int microBatch = 0; microBatch < 2; ++microBatch)
    ASSERT_TRUE(succeeded(interpreter->call("f", {f32({2}, {1, 2})})));
  EXPECT_TRUE(isNear(*interpreter->getState("g"), f32({2}, {4, 8})));
  interpreter->beginStep();
  ASSERT_TRUE(succeeded(interpreter->call("f", {f32({2}, {5, 6})})));
  EXPECT_TRUE(isNear(*interpreter->getState("g"), f32({2}, {10, 12})));
}

TEST(UpdateOps, IncrementGivesTheNewValue) {
  std::vector<Tensor> results = run(R"(
    hyc.state @step role "step" : tensor<i64> from dense<41> : tensor<i64>
    hyc.func @f() -> (tensor<i64>) {
      %r = hyc.increment @step : tensor<i64>
      hyc.return %r : tensor<i64>
    })",
                                    {});
  EXPECT_EQ(results[0].getInteger(), 42);
}

TEST(UpdateOps, SumOfSquaresIsExactInF64) {
  std::vector<Tensor> results = run(R"(
    hyc.state @a role "gradient" : tensor<3000xf32> from #hyc.fill<0.1>
    hyc.state @b role "gradient" : tensor<2xf32> from dense<[3.0, 4.0]> : tensor<2xf32>
    hyc.func @f() -> (tensor<f64>) {
      %r = hyc.sum_of_squares [@a, @b] : tensor<f64>
      hyc.return %r : tensor<f64>
    })",
                                    {});
  double x = 0.1f;
  EXPECT_NEAR(results[0].getDouble(), 3000 * x * x + 25, 1e-10);
}

TEST(UpdateOps, GradientScaleClipsTheMeanGradient) {
  auto scale = [](const std::string &clip, double sumOfSquares, int64_t count) {
    return run("hyc.func @f(%0: tensor<f64>, %1: tensor<i64>) -> (tensor<f32>, tensor<f32>) {\n"
               "%s, %n = hyc.gradient_scale %0, %1 " +
                   clip +
                   " : (tensor<f64>, tensor<i64>) -> (tensor<f32>, tensor<f32>)\n"
                   "hyc.return %s, %n : tensor<f32>, tensor<f32>\n}",
               {Tensor::scalar(ElementKind::F64, sumOfSquares), i64({}, {count})});
  };
  std::vector<Tensor> unclipped = scale("", 400, 5);
  EXPECT_NEAR(unclipped[0].getDouble(), 0.2, 1e-7);
  EXPECT_NEAR(unclipped[1].getDouble(), 4, 1e-6);
  EXPECT_NEAR(scale("max_norm 1.0", 400, 5)[0].getDouble(), 0.2 / (4 + 1e-6), 1e-7);
  EXPECT_NEAR(scale("max_norm 10.0", 400, 5)[0].getDouble(), 0.2, 1e-7) << "a small gradient is never enlarged";
  EXPECT_EQ(scale("", 0, 0)[1].getDouble(), 0);
}

TEST(UpdateOps, AdamWAgreesWithPyTorch) {
  std::string text = R"(
    hyc.param @w : tensor<3xf32> from dense<[-1.25, 2.0, 0.375]> : tensor<3xf32>
    hyc.state @g of @w role "gradient" : tensor<3xf32> from #hyc.fill<0.0>
    hyc.state @m of @w role "adam.m" : tensor<3xf32> from #hyc.fill<0.0>
    hyc.state @v of @w role "adam.v" : tensor<3xf32> from #hyc.fill<0.0>
    hyc.state @step role "step" : tensor<i64> from dense<0> : tensor<i64>
    hyc.func @f(%g: tensor<3xf32>, %lr: tensor<f32>, %scale: tensor<f32>) {
      hyc.write %g into @g : tensor<3xf32>
      %t = hyc.increment @step : tensor<i64>
      hyc.adamw @w, @g, @m, @v lr %lr step %t scale %scale
        {beta1 = 0.9, beta2 = 0.99, epsilon = 1.0e-8, weight_decay = 0.1} : tensor<f32>, tensor<i64>, tensor<f32>
      hyc.return
    })";
  std::vector<Tensor> first{f32({3}, {1.25, 1, 1.5}), f32({}, {0.01}), f32({}, {0.5})};
  std::vector<Tensor> second{f32({3}, {1.125, -1.75, -1.5}), f32({}, {0.01}), f32({}, {0.5})};
  EXPECT_TRUE(isNear(stateAfter(text, {first}, "w"), f32({3}, {-1.25875, 1.988, 0.364625})));
  EXPECT_TRUE(isNear(stateAfter(text, {first, second}, "w"), f32({3}, {-1.2674524, 1.9891469, 0.36478669})));
  EXPECT_TRUE(isNear(stateAfter(text, {first, second}, "m"), f32({3}, {0.1125, -0.0425, -0.0075})));
  EXPECT_TRUE(isNear(stateAfter(text, {first, second}, "v"), f32({3}, {0.00703125, 0.01013125, 0.01119375})));
}

TEST(UpdateOps, SgdWithMomentumAgreesWithPyTorch) {
  std::string text = R"(
    hyc.param @w : tensor<3xf32> from dense<[1.0, -1.375, 1.75]> : tensor<3xf32>
    hyc.state @g of @w role "gradient" : tensor<3xf32> from #hyc.fill<0.0>
    hyc.state @b of @w role "sgd.momentum" : tensor<3xf32> from #hyc.fill<0.0>
    hyc.func @f(%g: tensor<3xf32>, %lr: tensor<f32>, %scale: tensor<f32>) {
      hyc.write %g into @g : tensor<3xf32>
      hyc.sgd @w, @g velocity @b lr %lr scale %scale {momentum = 0.9, weight_decay = 0.05} : tensor<f32>, tensor<f32>
      hyc.return
    })";
  std::vector<Tensor> first{f32({3}, {-1.25, -1.75, 0.25}), f32({}, {0.1}), f32({}, {0.5})};
  std::vector<Tensor> second{f32({3}, {0.5, 2, -1.875}), f32({}, {0.1}), f32({}, {0.5})};
  EXPECT_TRUE(isNear(stateAfter(text, {first}, "w"), f32({3}, {1.0575, -1.280625, 1.72875})));
  EXPECT_TRUE(isNear(stateAfter(text, {first, second}, "w"), f32({3}, {1.0789625, -1.2892844, 1.7947313})));
}

TEST(UpdateOps, PlainSgdKeepsNoState) {
  std::string text = R"(
    hyc.param @w : tensor<2xf32> from dense<[1.0, 2.0]> : tensor<2xf32>
    hyc.state @g of @w role "gradient" : tensor<2xf32> from #hyc.fill<4.0>
    hyc.func @f(%lr: tensor<f32>, %scale: tensor<f32>) {
      hyc.sgd @w, @g lr %lr scale %scale {momentum = 0.0, weight_decay = 0.0} : tensor<f32>, tensor<f32>
      hyc.return
    })";
  EXPECT_TRUE(isNear(stateAfter(text, {{f32({}, {0.5}), f32({}, {0.25})}}, "w"), f32({2}, {0.5, 1.5})));
}

namespace {
constexpr int64_t kElements = 6, kSteps = 4;

/// A row of optimizer_values.inc: the parameter after each step.
struct OptimizerCase {
  std::string optimizer, variant;
  double after[kSteps][kElements];
};

const OptimizerCase kOptimizerCases[] = {
#include "../kernels/optimizer_values.inc"
};

/// The ops of one step, as @apply has them; with `momentum` the first decay is an operand, and the attribute is wrong.
/// `when` is " if %condition", or empty.
std::string updateOps(const OptimizerCase &each, bool momentum, const std::string &when = "") {
  const std::string beta1 = momentum ? "0.5" : "0.9", now = (momentum ? " momentum %beta1 : tensor<f64>" : "") + when;
  const std::string moments = "beta1 = " + beta1 + ", beta2 = 0.99, weight_decay = 0.1";
  const std::string correction = each.variant == "uncorrected" ? ", uncorrected" : "";
  if (each.optimizer == "sgd")
    return "hyc.sgd @w, @g velocity @m lr %lr scale %scale" + when +
           " {momentum = 0.9, weight_decay = 0.1} : "
           "tensor<f32>, tensor<f32>\n";
  if (each.optimizer == "lion")
    return "hyc.lion @w, @g, @m lr %lr scale %scale" + now + " {" + moments + "} : tensor<f32>, tensor<f32>\n";
  if (each.optimizer != "lamb")
    return "hyc." + each.optimizer + " @w, @g, @m, @v lr %lr step %t scale %scale" + now + " {" + moments +
           ", epsilon = 1.0e-6} : tensor<f32>, tensor<i64>, tensor<f32>\n";
  double least = 0.01, most = 10;
  std::sscanf(each.variant.c_str(), "bounds %lf %lf", &least, &most);
  return "hyc.lamb_direction @w, @g, @m, @v step %t scale %scale" + now + " {" + moments + ", epsilon = 1.0e-6" +
         correction + "} : tensor<i64>, tensor<f32>\n" +
         "%p = hyc.sum_of_squares [@w] : tensor<f64>\n%u = hyc.sum_of_squares [@g] : tensor<f64>\n" +
         "%r = hyc.trust_ratio %p, %u {least = " + std::to_string(least) + ", most = " + std::to_string(most) +
         "} : (tensor<f64>, tensor<f64>) -> tensor<f64>\n" + "hyc.lamb @w, @g lr %lr ratio %r" + when +
         " : tensor<f32>, tensor<f64>\n";
}

std::string updateModule(const std::string &ops) {
  const std::string state = " of @w role \"state\" : tensor<6xf32> from #hyc.fill<0.0>\n";
  return "hyc.param @w : tensor<6xf32> from dense<[-1.25, 2.0, 0.375, 0.0, -0.5, 3.0]> : tensor<6xf32>\n"
         "hyc.state @g" +
         state + "hyc.state @m" + state + "hyc.state @v" + state +
         "hyc.state @step role \"step\" : tensor<i64> from dense<0> : tensor<i64>\n"
         "hyc.func @f(%g: tensor<6xf32>, %lr: tensor<f32>, %scale: tensor<f32>, %beta1: tensor<f64>) {\n"
         "hyc.write %g into @g : tensor<6xf32>\n%t = hyc.increment @step : tensor<i64>\n" +
         ops + "hyc.return\n}";
}

void expectOptimizer(const OptimizerCase &each, bool momentum) {
  TestModule module(updateModule(updateOps(each, momentum)));
  Options wide;
  wide.arithmetic = Arithmetic::Wide;
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), wide);
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  const std::vector<std::vector<double>> grads = {{1.25, 1.0, 1.5, 0.0, -2.0, 0.125},
                                                  {1.125, -1.75, -1.5, 0.0, 0.25, -0.5},
                                                  {-0.75, 0.5, 0.0, 0.0, 1.0, 2.0},
                                                  {2.0, 0.25, -0.125, 0.0, -0.5, -1.0}};
  auto number = [](double value) { return Tensor::scalar(ElementKind::F64, value); };
  for (int64_t step = 0; step < kSteps; ++step) {
    Tensor grad = Tensor::fromDoubles(ElementKind::F64, {6}, grads[step]);
    ASSERT_TRUE(succeeded(interpreter->call("f", {grad, number(0.01), number(0.5), number(0.9)})))
        << module.diagnostics();
    for (int64_t i = 0; i < kElements; ++i)
      EXPECT_NEAR(interpreter->getState("w")->getDouble(i), each.after[step][i], 1e-12)
          << each.optimizer << " " << each.variant << ", step " << step + 1 << ", element " << i;
  }
}
} // namespace

TEST(UpdateOps, EveryOptimizerHasTheValuesOfTorchOrItsPaper) {
  for (const OptimizerCase &each : kOptimizerCases)
    expectOptimizer(each, /*momentum=*/false);
}

TEST(UpdateOps, AMomentumThatIsGivenTakesThePlaceOfTheAttribute) {
  for (const OptimizerCase &each : kOptimizerCases)
    expectOptimizer(each, /*momentum=*/true);
}

TEST(UpdateOps, AnUpdateThatDoesNotHappenLeavesEveryStateAlone) {
  const Tensor grad = Tensor::fromDoubles(ElementKind::F64, {6}, {1.25, 1.0, 1.5, 0.5, -2.0, 0.125});
  auto number = [](double value) { return Tensor::scalar(ElementKind::F64, value); };
  for (const OptimizerCase &each : kOptimizerCases)
    for (bool momentum : {false, true})
      for (bool happens : {false, true}) {
        TestModule module(updateModule(std::string("%happens = hyc.constant dense<") + (happens ? "true" : "false") +
                                       "> : tensor<i1>\n" + updateOps(each, momentum, " if %happens")));
        Options wide;
        wide.arithmetic = Arithmetic::Wide;
        llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), wide);
        ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
        Tensor param = *interpreter->getState("w"), zeros = *interpreter->getState("m");
        ASSERT_TRUE(succeeded(interpreter->call("f", {grad, number(0.01), number(0.5), number(0.9)})))
            << module.diagnostics();
        EXPECT_NE(interpreter->getState("w")->isIdenticalTo(param), happens) << each.optimizer;
        EXPECT_NE(interpreter->getState("m")->isIdenticalTo(zeros), happens) << each.optimizer;
        if (happens)
          continue;
        EXPECT_TRUE(interpreter->getState("v")->isIdenticalTo(zeros)) << each.optimizer;
        for (int64_t i = 0; i < kElements; ++i)
          EXPECT_EQ(interpreter->getState("g")->getDouble(i), grad.getDouble(i)) << each.optimizer;
      }
}
