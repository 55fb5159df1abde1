// Calls by name, and a training step of a phase-2 module whose values are worked out by hand.
#include "InterpreterTesting.h"

using namespace hyc::interpreter;

namespace {
// loss_sum = Σ w·x over the samples, so that dw = Σ x.
const char *kLinear = R"(
  hyc.param @w : tensor<2xf32> from dense<[1.0, -1.0]> : tensor<2xf32>
  hyc.state @w.grad of @w role "gradient" : tensor<2xf32> from #hyc.fill<9.0>
  hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
  hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>
  hyc.state @grad_norm role "grad_norm" : tensor<f32> from #hyc.fill<0.0>
  hyc.func @microbatch(%x: tensor<3x2xf32> {hyc.input = "x"}) {
    %w = hyc.read @w : tensor<2xf32>
    %y = hyc.einsum "bi,i->b" %x, %w : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3xf32>
    %loss = hyc.reduce sum %y [0] : (tensor<3xf32>) -> tensor<f32>
    hyc.accumulate %loss into @loss_sum : tensor<f32>
    %count = hyc.constant dense<3> : tensor<i64>
    hyc.accumulate %count into @token_count : tensor<i64>
    %dw = hyc.reduce sum %x [0] : (tensor<3x2xf32>) -> tensor<2xf32>
    hyc.accumulate %dw into @w.grad : tensor<2xf32>
    hyc.return
  }
  hyc.func @apply(%lr: tensor<f32> {hyc.scalar = "lr"}) {
    %ss = hyc.sum_of_squares [@w.grad] : tensor<f64>
    %count = hyc.read @token_count : tensor<i64>
    %scale, %norm = hyc.gradient_scale %ss, %count : (tensor<f64>, tensor<i64>) -> (tensor<f32>, tensor<f32>)
    hyc.write %norm into @grad_norm : tensor<f32>
    hyc.sgd @w, @w.grad lr %lr scale %scale {momentum = 0.0, weight_decay = 0.0} : tensor<f32>, tensor<f32>
    hyc.return
  })";

NamedTensors batchOf(llvm::ArrayRef<double> values) {
  NamedTensors batch;
  batch["x"] = f32({static_cast<int64_t>(values.size()) / 2, 2}, values);
  return batch;
}
} // namespace

TEST(TrainStep, AccumulatesOverMicroBatchesThenUpdates) {
  TestModule module(kLinear);
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  auto microBatches = splitMicroBatches(batchOf({1, 0, 2, 0, 3, 0, 0, 1, 0, 2, 0, 5}), 2);
  ASSERT_TRUE(succeeded(microBatches));
  llvm::FailureOr<StepResult> step = runTrainStep(*interpreter, *microBatches, 0.6);
  ASSERT_TRUE(succeeded(step)) << module.diagnostics();
  EXPECT_EQ(step->lossSum, 6 - 8);
  EXPECT_EQ(step->tokenCount, 6);
  EXPECT_NEAR(step->gradNorm, 10.0 / 6, 1e-6);
  EXPECT_TRUE(isNear(*interpreter->getState("w.grad"), f32({2}, {6, 8})));
  EXPECT_TRUE(isNear(*interpreter->getState("w"), f32({2}, {1 - 0.6, -1 - 0.8})));

  ASSERT_TRUE(succeeded(interpreter->setState("w", f32({2}, {0, 0}))));
  ASSERT_TRUE(succeeded(runTrainStep(*interpreter, *microBatches, 0)));
  EXPECT_TRUE(isNear(*interpreter->getState("w.grad"), f32({2}, {6, 8}))) << "gradients start anew each step";
}

TEST(TrainStep, BatchThatMicroBatchesDoNotDivideIsRefused) {
  EXPECT_TRUE(failed(splitMicroBatches(batchOf({1, 2, 3, 4, 5, 6}), 2)));
  EXPECT_TRUE(failed(splitMicroBatches(batchOf({1, 2, 3, 4, 5, 6}), 0)));
}

TEST(TrainStep, MissingInputIsNamed) {
  TestModule module(kLinear);
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(interpreter));
  EXPECT_TRUE(failed(interpreter->call("microbatch", NamedTensors())));
  EXPECT_EQ(module.diagnostics(), "no value is given for argument \"x\" of @microbatch\n");
}

TEST(TrainStep, ArgumentOfAnotherShapeIsRefused) {
  TestModule module(kLinear);
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(interpreter));
  EXPECT_TRUE(failed(interpreter->call("microbatch", batchOf({1, 2}))));
  EXPECT_EQ(module.diagnostics(), "argument 0 of @microbatch is tensor<1x2xf32>, expected 'tensor<3x2xf32>'\n");
}

TEST(TrainStep, ExchangeOnOneDeviceIsADiagnostic) {
  std::string text = function({"tensor<2xf32>"}, R"(%p = dist.all_reduce_start sum %0 over <{tp}>
      : tensor<2xf32> -> !dist.pending<tensor<2xf32>>
    %r = dist.wait %p : !dist.pending<tensor<2xf32>> -> tensor<2xf32>)",
                              "tensor<2xf32>");
  EXPECT_EQ(runToFailure(text, {f32({2}, {1, 2})}), "the interpreter cannot execute 'dist.all_reduce_start' here\n");
}
