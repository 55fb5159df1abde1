// Ranks that follow their stages' schedules: a pipeline and its gradients, and everything that makes ranks hang or
// misunderstand each other.
#include "InterpreterTesting.h"

#include "hyc/Interpreter/MeshInterpreter.h"

using namespace hyc::interpreter;

namespace {
/// `text` with the only occurrence of `from` replaced.
std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  if (at == std::string::npos || text.find(from, at + 1) != std::string::npos) {
    ADD_FAILURE() << "expected exactly one \"" << from << "\"";
    return text;
  }
  return text.replace(at, from.size(), to);
}

// loss_sum = Σ v·(w ⊙ x) over the samples, on one device …
const char *kWhole = R"(
  hyc.param @w : tensor<2xf32> from dense<[1.0, -2.0]> : tensor<2xf32>
  hyc.param @v : tensor<2xf32> from dense<[0.5, 3.0]> : tensor<2xf32>
  hyc.state @w.grad of @w role "gradient" : tensor<2xf32> from #hyc.fill<0.0>
  hyc.state @v.grad of @v role "gradient" : tensor<2xf32> from #hyc.fill<0.0>
  hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
  hyc.func @microbatch(%x: tensor<4x2xf32> {hyc.input = "x"}) {
    %w = hyc.read @w : tensor<2xf32>
    %h = hyc.einsum "bi,i->bi" %x, %w : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
    %v = hyc.read @v : tensor<2xf32>
    %y = hyc.einsum "bi,i->b" %h, %v : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4xf32>
    %loss = hyc.reduce sum %y [0] : (tensor<4xf32>) -> tensor<f32>
    hyc.accumulate %loss into @loss_sum : tensor<f32>
    %dv = hyc.reduce sum %h [0] : (tensor<4x2xf32>) -> tensor<2xf32>
    hyc.accumulate %dv into @v.grad : tensor<2xf32>
    %dh = hyc.broadcast %v [1] : (tensor<2xf32>) -> tensor<4x2xf32>
    %dw = hyc.einsum "bi,bi->i" %dh, %x : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<2xf32>
    hyc.accumulate %dw into @w.grad : tensor<2xf32>
    hyc.return
  }
  hyc.func @apply(%lr: tensor<f32> {hyc.scalar = "lr"}) {
    %one = hyc.constant dense<1.0> : tensor<f32>
    hyc.sgd @w, @w.grad lr %lr scale %one {momentum = 0.0, weight_decay = 0.0} : tensor<f32>, tensor<f32>
    hyc.sgd @v, @v.grad lr %lr scale %one {momentum = 0.0, weight_decay = 0.0} : tensor<f32>, tensor<f32>
    hyc.return
  })";

// … and over dp 2 and two stages, w on the first and v on the second, by 1F1B.
const char *kPipeline = R"(
  dist.mesh @mesh axes ["dp"] sizes [2] stages 2 batch <{dp}>
  hyc.param @w : tensor<2xf32> from dense<[1.0, -2.0]> : tensor<2xf32> {dist.stages = array<i64: 0>}
  hyc.param @v : tensor<2xf32> from dense<[0.5, 3.0]> : tensor<2xf32> {dist.stages = array<i64: 1>}
  hyc.state @w.grad of @w role "gradient" : tensor<2xf32> from #hyc.fill<0.0> {dist.stages = array<i64: 0>}
  hyc.state @v.grad of @v role "gradient" : tensor<2xf32> from #hyc.fill<0.0> {dist.stages = array<i64: 1>}
  hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>

  hyc.func @forward.0(%x: tensor<2x2xf32> {hyc.input = "x"}) -> (tensor<2x2xf32> {dist.channel = "h"}) {
    %w = hyc.read @w : tensor<2xf32>
    %h = hyc.einsum "bi,i->bi" %x, %w : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
    hyc.return %h : tensor<2x2xf32>
  }
  hyc.func @backward.0(%x: tensor<2x2xf32> {hyc.input = "x"}, %dh: tensor<2x2xf32> {dist.channel = "h.grad"}) {
    %dw = hyc.einsum "bi,bi->i" %dh, %x : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
    hyc.accumulate %dw into @w.grad : tensor<2xf32>
    hyc.return
  }
  hyc.func @reduce.0() {
    %g = hyc.read @w.grad : tensor<2xf32>
    %p = dist.all_reduce_start sum %g over <{dp}> {cause = "w.grad"} : tensor<2xf32> -> !dist.pending<tensor<2xf32>>
    %r = dist.wait %p : !dist.pending<tensor<2xf32>> -> tensor<2xf32>
    hyc.write %r into @w.grad : tensor<2xf32>
    %zero = hyc.constant dense<0.0> : tensor<f32>
    %pl = dist.all_reduce_start sum %zero over <{dp} stages [0, 1]> {cause = "loss"} : tensor<f32> -> !dist.pending<tensor<f32>>
    %l = dist.wait %pl : !dist.pending<tensor<f32>> -> tensor<f32>
    hyc.write %l into @loss_sum : tensor<f32>
    hyc.return
  }
  hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
    %one = hyc.constant dense<1.0> : tensor<f32>
    hyc.sgd @w, @w.grad lr %lr scale %one {momentum = 0.0, weight_decay = 0.0} : tensor<f32>, tensor<f32>
    hyc.return
  }

  hyc.func @forward.1(%h: tensor<2x2xf32> {dist.channel = "h"}) -> (tensor<2x2xf32> {hyc.saved = "h"}) {
    %v = hyc.read @v : tensor<2xf32>
    %y = hyc.einsum "bi,i->b" %h, %v : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %loss = hyc.reduce sum %y [0] : (tensor<2xf32>) -> tensor<f32>
    hyc.accumulate %loss into @loss_sum : tensor<f32>
    hyc.return %h : tensor<2x2xf32>
  }
  hyc.func @backward.1(%h: tensor<2x2xf32> {hyc.saved = "h"}) -> (tensor<2x2xf32> {dist.channel = "h.grad"}) {
    %dv = hyc.reduce sum %h [0] : (tensor<2x2xf32>) -> tensor<2xf32>
    hyc.accumulate %dv into @v.grad : tensor<2xf32>
    %v = hyc.read @v : tensor<2xf32>
    %dh = hyc.broadcast %v [1] : (tensor<2xf32>) -> tensor<2x2xf32>
    hyc.return %dh : tensor<2x2xf32>
  }
  hyc.func @reduce.1() {
    %g = hyc.read @v.grad : tensor<2xf32>
    %p = dist.all_reduce_start sum %g over <{dp}> {cause = "v.grad"} : tensor<2xf32> -> !dist.pending<tensor<2xf32>>
    %r = dist.wait %p : !dist.pending<tensor<2xf32>> -> tensor<2xf32>
    hyc.write %r into @v.grad : tensor<2xf32>
    %mine = hyc.read @loss_sum : tensor<f32>
    %pl = dist.all_reduce_start sum %mine over <{dp} stages [0, 1]> {cause = "loss"} : tensor<f32> -> !dist.pending<tensor<f32>>
    %l = dist.wait %pl : !dist.pending<tensor<f32>> -> tensor<f32>
    hyc.write %l into @loss_sum : tensor<f32>
    hyc.return
  }
  hyc.func @apply.1(%lr: tensor<f32> {hyc.scalar = "lr"}) {
    %one = hyc.constant dense<1.0> : tensor<f32>
    hyc.sgd @v, @v.grad lr %lr scale %one {momentum = 0.0, weight_decay = 0.0} : tensor<f32>, tensor<f32>
    hyc.return
  }
)";
const char *kSchedules = R"(
  dist.schedule stage 0 slots 2 [
    #dist.do<begin_step>,
    #dist.do<forward micro_batch 0 slot 0>,
    #dist.do<exchange [send forward micro_batch 0 slot 0]>,
    #dist.do<forward micro_batch 1 slot 1>,
    #dist.do<exchange [send forward micro_batch 1 slot 1, receive backward micro_batch 0 slot 0]>,
    #dist.do<backward micro_batch 0 slot 0>,
    #dist.do<exchange [receive backward micro_batch 1 slot 1]>,
    #dist.do<backward micro_batch 1 slot 1>,
    #dist.do<reduce>, #dist.do<apply>]
  dist.schedule stage 1 slots 1 [
    #dist.do<begin_step>,
    #dist.do<exchange [receive forward micro_batch 0 slot 0]>,
    #dist.do<forward micro_batch 0 slot 0>,
    #dist.do<backward micro_batch 0 slot 0>,
    #dist.do<exchange [send backward micro_batch 0 slot 0, receive forward micro_batch 1 slot 0]>,
    #dist.do<forward micro_batch 1 slot 0>,
    #dist.do<backward micro_batch 1 slot 0>,
    #dist.do<exchange [send backward micro_batch 1 slot 0]>,
    #dist.do<reduce>, #dist.do<apply>]
)";

NamedTensors eightSamples() {
  NamedTensors batch;
  batch["x"] = f32({8, 2}, {1, 2, 3, 4, 5, 6, 7, 8, -1, 0, 2, -3, 0.5, 4, 1, 1});
  return batch;
}

/// The diagnostics of a step, or of creation, which has to fail.
std::string stepToFailure(const std::string &text) {
  TestModule module(text);
  llvm::FailureOr<MeshInterpreter> ranks = MeshInterpreter::create(module.get(), {});
  if (succeeded(ranks) && succeeded(ranks->runStep(eightSamples(), 0.1)))
    ADD_FAILURE() << "expected a failure of\n" << text;
  return module.diagnostics();
}
} // namespace

TEST(MeshSchedule, PipelineTrainsAsOneDeviceDoes) {
  TestModule whole(kWhole), pipeline(std::string(kPipeline) + kSchedules);
  llvm::FailureOr<Interpreter> one = Interpreter::create(whole.get(), {});
  llvm::FailureOr<MeshInterpreter> four = MeshInterpreter::create(pipeline.get(), {});
  ASSERT_TRUE(succeeded(one) && succeeded(four)) << whole.diagnostics() << pipeline.diagnostics();
  EXPECT_EQ(four->getNumRanks(), 4);
  EXPECT_EQ(four->getNumMicroBatches(), 2);
  for (int step = 0; step < 3; ++step) {
    llvm::FailureOr<StepResult> expected = runTrainStep(*one, *splitMicroBatches(eightSamples(), 2), 0.01);
    llvm::FailureOr<StepResult> actual = four->runStep(eightSamples(), 0.01);
    ASSERT_TRUE(succeeded(expected) && succeeded(actual)) << whole.diagnostics() << pipeline.diagnostics();
    EXPECT_NEAR(actual->lossSum, expected->lossSum, 1e-5) << step;
    for (const char *symbol : {"w", "v", "w.grad", "v.grad"}) {
      llvm::FailureOr<Tensor> gathered = four->gatherState(symbol);
      ASSERT_TRUE(succeeded(gathered)) << pipeline.diagnostics();
      EXPECT_TRUE(isNear(*gathered, *one->getState(symbol), 1e-5)) << symbol << " in step " << step;
    }
  }
  EXPECT_EQ(four->getLocalState(0, "v"), nullptr) << "stage 0 does not hold what lives on stage 1";
}

TEST(MeshSchedule, OpposingTransfersWrittenApartDeadlock) {
  std::string apart =
      replaced(kSchedules, "[send forward micro_batch 1 slot 1, receive backward micro_batch 0 slot 0]",
               "[send forward micro_batch 1 slot 1]>, #dist.do<exchange [receive backward micro_batch 0 slot 0]");
  apart = replaced(apart, "[send backward micro_batch 0 slot 0, receive forward micro_batch 1 slot 0]",
                   "[send backward micro_batch 0 slot 0]>, #dist.do<exchange [receive forward micro_batch 1 slot 0]");
  EXPECT_EQ(stepToFailure(kPipeline + apart), R"(deadlock: no rank can go on
note: rank 0 (stage 0, dp 0) at instruction 4 waits for send forward micro_batch 1 to rank 2 (stage 1, dp 0)
note: rank 1 (stage 0, dp 1) at instruction 4 waits for send forward micro_batch 1 to rank 3 (stage 1, dp 1)
note: rank 2 (stage 1, dp 0) at instruction 4 waits for send backward micro_batch 0 to rank 0 (stage 0, dp 0)
note: rank 3 (stage 1, dp 1) at instruction 4 waits for send backward micro_batch 0 to rank 1 (stage 0, dp 1)
)");
}

TEST(MeshSchedule, CollectiveThatOneStageForgetsDeadlocks) {
  std::string text = replaced(kPipeline, R"(    %zero = hyc.constant dense<0.0> : tensor<f32>
    %pl = dist.all_reduce_start sum %zero over <{dp} stages [0, 1]> {cause = "loss"} : tensor<f32> -> !dist.pending<tensor<f32>>
    %l = dist.wait %pl : !dist.pending<tensor<f32>> -> tensor<f32>
    hyc.write %l into @loss_sum : tensor<f32>
)",
                              "");
  std::string wait =
      " at instruction 8 waits for all_reduce sum of tensor<f32> into tensor<f32> over "
      "#dist.group<{dp} stages [0, 1]> (cause \"loss\"), which rank 0 (stage 0, dp 0) has not started, in "
      "@reduce.1\n";
  EXPECT_EQ(stepToFailure(text + kSchedules), "deadlock: no rank can go on\n"
                                              "note: rank 0 (stage 0, dp 0) has finished its step\n"
                                              "note: rank 1 (stage 0, dp 1) has finished its step\n"
                                              "note: rank 2 (stage 1, dp 0)" +
                                                  wait + "note: rank 3 (stage 1, dp 1)" + wait);
}

TEST(MeshSchedule, DifferentCollectivesInOnePlaceAreNamedBoth) {
  std::string text = replaced(kPipeline, R"(sum %zero over <{dp} stages [0, 1]> {cause = "loss"})",
                              R"(max %zero over <{dp} stages [0, 1]> {cause = "norm"})");
  EXPECT_EQ(stepToFailure(text + kSchedules),
            "rank 1 (stage 0, dp 1) starts all_reduce max of tensor<f32> into tensor<f32> over "
            "#dist.group<{dp} stages [0, 1]> (cause \"norm\")\n"
            "note: but as number 0 of the same group rank 3 (stage 1, dp 1) started all_reduce sum of tensor<f32> into "
            "tensor<f32> over #dist.group<{dp} stages [0, 1]> (cause \"loss\")\n");
}

/// Each pair of ranks agrees on its order, but the three queues close a circle.
TEST(MeshSchedule, CollectivesQueuedInACircleDeadlock) {
  std::string text = R"(dist.mesh @mesh axes ["dp"] sizes [1] stages 3 batch <{dp}>
)";
  const char *groups[3][2] = {{"[0, 1]", "[0, 2]"}, {"[1, 2]", "[0, 1]"}, {"[0, 2]", "[1, 2]"}};
  for (int stage = 0; stage < 3; ++stage) {
    std::string id = std::to_string(stage);
    text += "hyc.func @reduce." + id + "() {\n%c = hyc.constant dense<1.0> : tensor<f32>\n";
    for (int i = 0; i < 2; ++i)
      text += "%p" + std::to_string(i) + " = dist.all_reduce_start sum %c over <{} stages " + groups[stage][i] +
              "> : tensor<f32> -> !dist.pending<tensor<f32>>\n";
    for (int i = 0; i < 2; ++i)
      text += "%r" + std::to_string(i) + " = dist.wait %p" + std::to_string(i) +
              " : !dist.pending<tensor<f32>> -> tensor<f32>\n";
    text += "hyc.return\n}\ndist.schedule stage " + id + " slots 0 [#dist.do<reduce>]\n";
  }
  std::string message = stepToFailure(text);
  EXPECT_NE(message.find("deadlock: no rank can go on"), std::string::npos) << message;
  EXPECT_NE(message.find("which rank 1 (stage 1, dp 0) has queued behind its all_reduce sum"), std::string::npos)
      << message;
}

//===----------------------------------------------------------------------===//
// Slots and transfers
//===----------------------------------------------------------------------===//

TEST(MeshSchedule, ReceivingIntoAFullSlotIsADiagnostic) {
  std::string early =
      replaced(kSchedules, "#dist.do<forward micro_batch 0 slot 0>,\n    #dist.do<backward micro_batch 0 slot 0>,\n",
               "#dist.do<forward micro_batch 0 slot 0>,\n#dist.do<exchange [receive forward micro_batch 1 slot 0]>,"
               "#dist.do<backward micro_batch 0 slot 0>,\n");
  EXPECT_NE(stepToFailure(kPipeline + early).find("slot 0 still holds what micro-batch 0 saved"), std::string::npos);
}

TEST(MeshSchedule, SendingWhatWasNotComputedIsADiagnostic) {
  std::string wrong =
      replaced(kSchedules, "[send forward micro_batch 1 slot 1, ", "[send forward micro_batch 1 slot 0, ");
  EXPECT_NE(stepToFailure(kPipeline + wrong).find("slot 0 has nothing of micro-batch 1 to send"), std::string::npos);
}

TEST(MeshSchedule, NeighboursThatMeanDifferentMicroBatchesAreNamedBoth) {
  std::string wrong =
      replaced(kSchedules, "[receive forward micro_batch 0 slot 0]", "[receive forward micro_batch 1 slot 0]");
  EXPECT_EQ(stepToFailure(kPipeline + wrong),
            "rank 0 (stage 0, dp 0) posts send forward micro_batch 0 to rank 2 (stage 1, dp 0)\n"
            "note: but rank 2 (stage 1, dp 0) posts receive forward micro_batch 1 from rank 0 (stage 0, dp 0)\n");
}

TEST(MeshSchedule, GradientThatIsNeverSentIsADiagnostic) {
  std::string wrong = replaced(kSchedules, ",\n    #dist.do<exchange [send backward micro_batch 1 slot 0]>", "");
  wrong = replaced(
      wrong,
      ",\n    #dist.do<exchange [receive backward micro_batch 1 slot 1]>,\n    #dist.do<backward micro_batch 1 slot 1>",
      "");
  EXPECT_NE(stepToFailure(kPipeline + wrong).find("no backward used what micro-batch 1 saved"), std::string::npos);
}

TEST(MeshSchedule, ChannelsOfNeighboursHaveToMatch) {
  EXPECT_EQ(
      stepToFailure(replaced(kPipeline, R"(%h: tensor<2x2xf32> {dist.channel = "h"}) -> (tensor<2x2xf32> {hyc.saved)",
                             R"(%h: tensor<2x2xf32> {dist.channel = "hidden"}) -> (tensor<2x2xf32> {hyc.saved)") +
                    kSchedules),
      "channel \"hidden\" is received as 'tensor<2x2xf32>'\nnote: but @forward.0 does not send it\n");
}

TEST(MeshSchedule, BackwardUsesExactlyWhatForwardSaves) {
  EXPECT_EQ(stepToFailure(replaced(kPipeline, R"(@backward.1(%h: tensor<2x2xf32> {hyc.saved = "h"}))",
                                   R"(@backward.1(%h: tensor<2x2xf32> {hyc.saved = "y"}))") +
                          kSchedules),
            "uses \"y\", which @forward.1 does not save\n");
}

TEST(MeshSchedule, StageWithoutScheduleIsADiagnostic) {
  std::string first = kSchedules;
  first.resize(first.find("dist.schedule stage 1"));
  EXPECT_EQ(stepToFailure(kPipeline + first), "has 2 stages, but stage 1 has no dist.schedule\n");
}

TEST(MeshSchedule, StagesRunEquallyManyMicroBatches) {
  std::string fewer = kSchedules;
  fewer.resize(fewer.find("dist.schedule stage 1"));
  fewer +=
      "dist.schedule stage 1 slots 1 [#dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>]";
  EXPECT_EQ(stepToFailure(kPipeline + fewer), "runs 1 micro-batches, but stage 0 runs 2\n");
}

TEST(MeshSchedule, ScheduleThatCallsAMissingFunctionIsADiagnostic) {
  EXPECT_EQ(stepToFailure(replaced(kPipeline, "@reduce.1()", "@reduce.7()") + kSchedules),
            "asks for #dist.do<reduce>, but there is no @reduce.1\n");
}

TEST(MeshSchedule, BatchThatRanksCannotShareEquallyIsADiagnostic) {
  TestModule module(std::string(kPipeline) + kSchedules);
  llvm::FailureOr<MeshInterpreter> ranks = MeshInterpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(ranks)) << module.diagnostics();
  NamedTensors batch;
  batch["x"] = Tensor(ElementKind::F32, {6, 2});
  EXPECT_TRUE(failed(ranks->runStep(batch, 0.1)));
  EXPECT_NE(module.diagnostics().find("the 3 samples of a micro-batch cannot be cut into 2 equal parts"),
            std::string::npos);
}
