// Phase 5 by hand: programs over a few bytes, and every way in which one can misuse them.
#include "InterpreterTesting.h"

#include "hyc/Interpreter/RankInterpreter.h"

using namespace hyc::interpreter;

namespace {
/// One rank a dp coordinate of one stage, two micro-batches in one slot; `functions` replaces those that do nothing.
std::string program(const std::string &functions, int ranks = 1, const std::string &tables = "") {
  std::string text = "dist.mesh @mesh axes [\"dp\"] sizes [" + std::to_string(ranks) + R"(] stages 1 batch <{dp}>
    dist.schedule stage 0 slots 1 [#dist.do<begin_step>,
      #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
      #dist.do<forward micro_batch 1 slot 0>, #dist.do<backward micro_batch 1 slot 0>, #dist.do<reduce>, #dist.do<apply>]
    rank.program @stage0 stage 0 slots 1 {
      rank.arena @activations bytes 256 record_bytes 64
      rank.arena @gradients shared bytes 128
      rank.arena @host bytes 64
      rank.state @w "parameter" of "w" in @gradients at 0 : !rank.buffer<4xf32> logical [4] global [4]
        splits [#dist.axes<{}>] init dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
      rank.state @g "gradient" of "w" in @gradients at 64 : !rank.buffer<4xf32> logical [4] global [4]
        splits [#dist.axes<{}>] init #hyc.fill<0.0 : f64>
      rank.input @ids source "token" bound 9 in @host at 0 : !rank.buffer<2xi64>
      rank.record @saved in @activations at 0 : !rank.buffer<4xf32>
      rank.collective @sum 0 "all_reduce" over <{dp}> cause "w.grad" why "partial {dp}"
    )" + tables + functions;
  for (const char *name : {"forward", "backward", "reduce", "apply"})
    if (functions.find(std::string("@") + name + "(") == std::string::npos)
      text += std::string("rank.func @") + name + "() {}\n";
  return text + "}\n";
}

const char *kSave = R"(rank.func @forward() {
  %w = rank.at @gradients 0 : !rank.buffer<4xf32>
  %s = rank.at @activations 0 per_slot {id = "saved"} : !rank.buffer<4xf32>
  rank.call "strided_copy" %s = %w : !rank.buffer<4xf32>, !rank.buffer<4xf32>
})";
const char *kAccumulate = R"(rank.func @backward() {
  %s = rank.at @activations 0 per_slot {id = "saved"} : !rank.buffer<4xf32>
  %g = rank.at @gradients 64 : !rank.buffer<4xf32>
  rank.call "accumulate" %g = %s {mode = #rank<mode first>} : !rank.buffer<4xf32>, !rank.buffer<4xf32>
})";

NamedTensors tokens(int64_t count) {
  NamedTensors batch;
  batch["ids"] = Tensor(ElementKind::I64, {count});
  return batch;
}

std::string stepToFailure(const std::string &text, int64_t samples = 4) {
  TestModule module(text);
  llvm::FailureOr<RankInterpreter> ranks = RankInterpreter::create(module.get(), {});
  if (succeeded(ranks) && succeeded(ranks->runStep(tokens(samples), 0.1)))
    ADD_FAILURE() << "expected a failure of\n" << text;
  return module.diagnostics();
}
} // namespace

TEST(RankMemory, FirstMicroBatchOverwritesAndTheNextAdds) {
  for (Arithmetic arithmetic : {Arithmetic::AsTyped, Arithmetic::Wide}) {
    TestModule module(program(std::string(kSave) + kAccumulate));
    Options options;
    options.arithmetic = arithmetic;
    llvm::FailureOr<RankInterpreter> ranks = RankInterpreter::create(module.get(), options);
    ASSERT_TRUE(succeeded(ranks)) << module.diagnostics();
    for (int step = 0; step < 2; ++step) {
      ASSERT_TRUE(succeeded(ranks->runStep(tokens(4), 0))) << module.diagnostics();
      llvm::FailureOr<Tensor> gradient = ranks->gatherState("g");
      ASSERT_TRUE(succeeded(gradient)) << module.diagnostics();
      EXPECT_TRUE(isNear(gradient->converted(ElementKind::F32), f32({4}, {2, 4, 6, 8}))) << "step " << step;
    }
  }
}

TEST(RankMemory, RecordThatForwardDidNotWriteIsUndefined) {
  EXPECT_EQ(stepToFailure(program(kAccumulate)), "reads byte 0 of @activations, which nothing has written\n");
}

TEST(RankMemory, RecordIsForgottenAfterBackward) {
  // What the last backward has read, nobody may read again.
  std::string text = program(std::string(kSave) + kAccumulate + R"(rank.func @apply() {
    %s = rank.at @activations 0 : !rank.buffer<4xf32>
    %g = rank.at @gradients 64 : !rank.buffer<4xf32>
    rank.call "strided_copy" %g = %s : !rank.buffer<4xf32>, !rank.buffer<4xf32>
  })");
  EXPECT_EQ(stepToFailure(text), "reads byte 0 of @activations, which nothing has written\n");
}

TEST(RankMemory, TemporaryIsForgottenWhenAFunctionBegins) {
  std::string text = program(R"(rank.func @forward() {
    %t = rank.at @activations 128 : !rank.buffer<4xf32>
    rank.call "fill" %t = {value = 1.0 : f32} : !rank.buffer<4xf32>
  }
  rank.func @backward() {
    %t = rank.at @activations 128 : !rank.buffer<4xf32>
    %g = rank.at @gradients 64 : !rank.buffer<4xf32>
    rank.call "strided_copy" %g = %t : !rank.buffer<4xf32>, !rank.buffer<4xf32>
  })");
  EXPECT_EQ(stepToFailure(text), "reads byte 128 of @activations, which nothing has written\n");
}

TEST(RankMemory, CallThatReachesPastItsArenaIsADiagnostic) {
  EXPECT_EQ(stepToFailure(program(R"(rank.func @forward() {
    %w = rank.at @gradients 0 : !rank.buffer<4xf32>
    %t = rank.at @activations 248 : !rank.buffer<2xf32>
    rank.gemm %t = %w, %w {m = 1 : i64, n = 4 : i64, k = 1 : i64, lda = 1 : i64, ldb = 4 : i64, ldc = 4 : i64}
      : !rank.buffer<2xf32>, !rank.buffer<4xf32>, !rank.buffer<4xf32>
  })")),
            "reaches byte 264 of @activations, which has 256\n");
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

namespace {
/// @reduce of the gradient in place, with `between` between start and wait.
std::string reduceWith(const std::string &between) {
  return std::string(kSave) + kAccumulate + R"(rank.func @reduce() {
    %w = rank.at @gradients 0 : !rank.buffer<4xf32>
    %g = rank.at @gradients 64 : !rank.buffer<4xf32>
    %t = rank.at @activations 128 : !rank.buffer<4xf32>
    %row = rank.row @sum
    %ticket = rank.start "all_reduce" "sum" %row, %g into %t count 4 : !rank.buffer<4xf32> into !rank.buffer<4xf32>
    )" + between +
         R"(
    rank.wait %ticket
    rank.call "strided_copy" %g = %t : !rank.buffer<4xf32>, !rank.buffer<4xf32>
  })";
}
} // namespace

TEST(RankMemory, CollectiveDeliversAtItsWait) {
  TestModule module(program(reduceWith(""), 2));
  llvm::FailureOr<RankInterpreter> ranks = RankInterpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(ranks)) << module.diagnostics();
  ASSERT_TRUE(succeeded(ranks->runStep(tokens(8), 0))) << module.diagnostics();
  EXPECT_TRUE(isNear(*ranks->gatherState("g"), f32({4}, {4, 8, 12, 16})));
}

TEST(RankMemory, SourceOfAStartedCollectiveMayBeReadButNotWritten) {
  EXPECT_EQ(
      stepToFailure(program(reduceWith(R"(rank.call "fill" %g = {value = 0.0 : f32} : !rank.buffer<4xf32>)"), 2), 8),
      "writes byte 64 of @gradients, which an unfinished exchange reads\n");
  TestModule module(
      program(reduceWith(R"(rank.call "strided_copy" %w = %g : !rank.buffer<4xf32>, !rank.buffer<4xf32>)"), 2));
  llvm::FailureOr<RankInterpreter> ranks = RankInterpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(ranks));
  EXPECT_TRUE(succeeded(ranks->runStep(tokens(8), 0))) << module.diagnostics();
}

TEST(RankMemory, DestinationOfAStartedCollectiveMayNotBeTouched) {
  EXPECT_EQ(
      stepToFailure(
          program(reduceWith(R"(rank.call "strided_copy" %w = %t : !rank.buffer<4xf32>, !rank.buffer<4xf32>)"), 2), 8),
      "reads byte 128 of @activations, which an exchange has not delivered yet\n");
  EXPECT_EQ(
      stepToFailure(
          program(reduceWith(R"(rank.call "strided_copy" %t = %w : !rank.buffer<4xf32>, !rank.buffer<4xf32>)"), 2), 8),
      "writes byte 128 of @activations, which an unfinished exchange writes\n");
}

TEST(RankMemory, TransferThatThePeerDoesNotExpectIsNamed) {
  std::string text = R"(
    dist.mesh @mesh axes ["dp"] sizes [1] stages 2 batch <{dp}>
    dist.schedule stage 0 slots 1 [#dist.do<forward micro_batch 0 slot 0>, #dist.do<exchange [send forward micro_batch 0 slot 0]>]
    dist.schedule stage 1 slots 1 [#dist.do<exchange [receive forward micro_batch 0 slot 0]>, #dist.do<forward micro_batch 0 slot 0>]
    rank.program @stage0 stage 0 slots 1 {
      rank.arena @communication shared bytes 64 record_bytes 64
      rank.record @h in @communication at 0 : !rank.buffer<4xf32>
      rank.transfer @send send of @h peer 1 tag 0
      rank.func @forward() {
        %h = rank.at @communication 0 per_slot : !rank.buffer<4xf32>
        rank.call "fill" %h = {value = 1.0 : f32} : !rank.buffer<4xf32>
      }
    }
    rank.program @stage1 stage 1 slots 1 {
      rank.arena @communication shared bytes 64 record_bytes 64
      rank.record @h in @communication at 0 : !rank.buffer<4xf32>
      rank.transfer @receive of @h peer 0 tag 7
      rank.func @forward() {}
    })";
  TestModule module(text);
  llvm::FailureOr<RankInterpreter> ranks = RankInterpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(ranks)) << module.diagnostics();
  EXPECT_TRUE(failed(ranks->runStep({}, 0)));
  EXPECT_EQ(module.diagnostics(), "channel \"7\" is received as 'tensor<4xf32>'\nnote: but @stage0 does not send it\n");
}
