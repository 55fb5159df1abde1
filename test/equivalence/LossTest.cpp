// Losses of numbers, against their formulas and derivatives written out here: sums, gradients and what is right.
#include "TrainedModule.h"
#include "hyc/Interpreter/Interpreter.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {

constexpr int64_t kSamples = 4, kInputs = 3, kOutputs = 2;
const char *const kModel = R"(
  hyc.param @w : tensor<3x2xf32> from dense<[[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]]> : tensor<3x2xf32>
  hyc.func @train(%x: tensor<4x3xf32> {hyc.input = "x"}) -> (tensor<4x2xf32> {hyc.output = "y"}) {
    %w = hyc.read @w {id = "w.read"} : tensor<3x2xf32>
    %y = hyc.einsum "ik,kj->ij" %x, %w {id = "y"} : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    hyc.return %y : tensor<4x2xf32>
  })";
constexpr double kWeights[kInputs][kOutputs] = {{0.5, -1.0}, {2.0, 0.25}, {-0.75, 1.5}};
// One prediction is exactly 0, and one far from it, where e^x would overflow.
constexpr double kInput[kSamples][kInputs] = {{1, -0.25, 0}, {0.3, -0.7, 0.2}, {-60, 90, 1}, {0.1, 0.2, 0.3}};
constexpr double kTargets[kSamples][kOutputs] = {{1, 0}, {0.25, 1}, {0, 1}, {1, 0}};

double predicted(int64_t sample, int64_t output) {
  double sum = 0;
  for (int64_t k = 0; k < kInputs; ++k)
    sum += kInput[sample][k] * kWeights[k][output];
  return sum;
}

NamedTensors batch() {
  std::vector<double> x, targets;
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    x.insert(x.end(), kInput[sample], kInput[sample] + kInputs);
    targets.insert(targets.end(), kTargets[sample], kTargets[sample] + kOutputs);
  }
  NamedTensors tensors;
  tensors["x"] = Tensor::fromDoubles(ElementKind::F32, {kSamples, kInputs}, x);
  tensors["labels"] = Tensor::fromDoubles(ElementKind::F32, {kSamples, kOutputs}, targets);
  return tensors;
}

/// After `passes`, one micro-batch.
void runMicroBatch(TrainedModule &module, llvm::FailureOr<Interpreter> &interpreter) {
  ASSERT_TRUE(module) << module.diagnostics();
  interpreter = Interpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  ASSERT_TRUE(succeeded(interpreter->call("microbatch", batch()))) << module.diagnostics();
}

using Function = std::function<double(double, double)>;

void expectLoss(const std::string &loss, const Function &formula, const Function &derivative) {
  TrainedModule module(kModel, "hyc-attach-loss{loss=" + loss + "},hyc-differentiate");
  llvm::FailureOr<Interpreter> interpreter = mlir::failure();
  runMicroBatch(module, interpreter);
  if (testing::Test::HasFatalFailure())
    return;
  double sum = 0;
  std::vector<double> gradient(kInputs * kOutputs);
  for (int64_t sample = 0; sample < kSamples; ++sample)
    for (int64_t output = 0; output < kOutputs; ++output) {
      double y = predicted(sample, output), target = kTargets[sample][output];
      sum += formula(y, target);
      for (int64_t k = 0; k < kInputs; ++k)
        gradient[static_cast<size_t>(k * kOutputs + output)] += kInput[sample][k] * derivative(y, target);
    }
  EXPECT_NEAR(interpreter->getState("loss_sum")->getDouble() / sum, 1, 1e-6);
  EXPECT_EQ(interpreter->getState("token_count")->getInteger(), kSamples * kOutputs);
  const Tensor actual = *interpreter->getState("w.grad");
  for (int64_t i = 0; i < kInputs * kOutputs; ++i)
    EXPECT_NEAR(actual.getDouble(i), gradient[static_cast<size_t>(i)],
                1e-5 * std::fabs(gradient[static_cast<size_t>(i)]) + 1e-6)
        << i;
}

TEST(LossOfNumbers, SquaredErrorAndItsGradient) {
  expectLoss(
      "mse", [](double y, double target) { return (y - target) * (y - target); },
      [](double y, double target) { return 2 * (y - target); });
}

TEST(LossOfNumbers, BinaryCrossEntropyAndItsGradient) {
  const auto log1pExp = [](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); };
  expectLoss(
      "binary_cross_entropy",
      [&](double y, double target) { return target * log1pExp(-y) + (1 - target) * log1pExp(y); },
      [](double y, double target) { return 1 / (1 + std::exp(-y)) - target; });
}

TEST(LossOfNumbers, CountsWhatIsOnTheRightSide) {
  TrainedModule module(kModel, "hyc-attach-loss{loss=binary_cross_entropy accuracy=true},hyc-enter-evaluation,"
                               "hyc-differentiate");
  llvm::FailureOr<Interpreter> interpreter = mlir::failure();
  runMicroBatch(module, interpreter);
  if (HasFatalFailure())
    return;
  int64_t right = 0;
  for (int64_t sample = 0; sample < kSamples; ++sample)
    for (int64_t output = 0; output < kOutputs; ++output)
      right += (predicted(sample, output) > 0) == (kTargets[sample][output] > 0.5);
  EXPECT_GT(right, 0);
  EXPECT_LT(right, kSamples * kOutputs);
  EXPECT_EQ(interpreter->getState("correct_count")->getInteger(), right);
  EXPECT_TRUE(!interpreter->getState("w.grad"));
}

} // namespace
