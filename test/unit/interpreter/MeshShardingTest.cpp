// How whole values are cut over a mesh and put together again, and exchanges within a stage.
#include "InterpreterTesting.h"

#include "hyc/Interpreter/MeshInterpreter.h"

using namespace hyc::interpreter;

namespace {
/// A one-stage module over dp × tp ranks that runs @forward.0 on one micro-batch, with `forward` as its body.
std::string oneStage(const std::string &symbols, const std::string &forward, const std::string &mesh = "[2, 2]") {
  return R"(dist.mesh @mesh axes ["dp", "tp"] sizes )" + mesh + " stages 1 batch <{dp}> tensor <{tp}>\n" + symbols +
         "hyc.func @forward.0() {\n" + forward + "\nhyc.return\n}\nhyc.func @backward.0() { hyc.return }\n" +
         R"(dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>,
             #dist.do<backward micro_batch 0 slot 0>])";
}

/// Runs one step without inputs, which has to succeed.
llvm::FailureOr<MeshInterpreter> afterOneStep(TestModule &module) {
  llvm::FailureOr<MeshInterpreter> ranks = MeshInterpreter::create(module.get(), {});
  bool ran = succeeded(ranks) && succeeded(ranks->runStep({}, 0));
  EXPECT_TRUE(ran) << module.diagnostics();
  return ran ? std::move(ranks) : llvm::FailureOr<MeshInterpreter>();
}
} // namespace

TEST(MeshSharding, EachRankHoldsItsPartAndPaddingIsZero) {
  TestModule module(oneStage(R"(
    hyc.param @w : tensor<3x1xf32> from dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 10.0]]> : tensor<5x2xf32>
      {global_type = tensor<5x2xf32>, dist.sharding = #dist.sharding<[{tp}, {dp}]>}
  )",
                             ""));
  llvm::FailureOr<MeshInterpreter> ranks = MeshInterpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(ranks)) << module.diagnostics();
  EXPECT_TRUE(isNear(*ranks->getLocalState(0, "w"), f32({3, 1}, {1, 3, 5})));
  EXPECT_TRUE(isNear(*ranks->getLocalState(1, "w"), f32({3, 1}, {7, 9, 0}))) << "tp varies fastest";
  EXPECT_TRUE(isNear(*ranks->getLocalState(3, "w"), f32({3, 1}, {8, 10, 0})));
  EXPECT_TRUE(isNear(*ranks->gatherState("w"), f32({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})));
  ASSERT_TRUE(succeeded(ranks->setState("w", Tensor::splat(ElementKind::F32, {5, 2}, 1))));
  EXPECT_TRUE(isNear(*ranks->getLocalState(3, "w"), f32({3, 1}, {1, 1, 0})));
}

TEST(MeshSharding, DimensionOverTwoAxesIsCutMajorToMinor) {
  TestModule module(oneStage(R"(
    hyc.param @w : tensor<1xf32> from dense<[0.0, 1.0, 2.0, 3.0]> : tensor<4xf32>
      {global_type = tensor<4xf32>, dist.sharding = #dist.sharding<[{tp, dp}]>}
  )",
                             ""));
  llvm::FailureOr<MeshInterpreter> ranks = MeshInterpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(ranks)) << module.diagnostics();
  // Rank 1 is dp 0, tp 1: coordinate tp·2 + dp.
  EXPECT_EQ(ranks->getLocalState(1, "w")->getDouble(), 2);
  EXPECT_EQ(ranks->getLocalState(2, "w")->getDouble(), 1);
}

TEST(MeshSharding, CopiesThatDifferAreADiagnostic) {
  TestModule module(oneStage(R"(hyc.state @s role "step" : tensor<i64> from #hyc.fill<0.0>)",
                             R"(%o = dist.shard_offset <{dp}> size 5 : tensor<i64>
                                hyc.write %o into @s : tensor<i64>)"));
  llvm::FailureOr<MeshInterpreter> ranks = afterOneStep(module);
  ASSERT_TRUE(succeeded(ranks));
  EXPECT_EQ(ranks->getLocalState(3, "s")->getInteger(), 5);
  EXPECT_TRUE(failed(ranks->gatherState("s")));
  EXPECT_EQ(module.diagnostics(),
            "@s: rank 0 (stage 0, dp 0, tp 0) and rank 2 (stage 0, dp 1, tp 0) hold different values\n");
}

TEST(MeshSharding, PaddingThatIsNotZeroIsADiagnostic) {
  TestModule module(oneStage(R"(
    hyc.param @w : tensor<2xf32> from #hyc.fill<1.0>
      {global_type = tensor<3xf32>, dist.sharding = #dist.sharding<[{tp}]>}
  )",
                             R"(%c = hyc.constant dense<7.0> : tensor<2xf32>
         hyc.write %c into @w : tensor<2xf32>)"));
  llvm::FailureOr<MeshInterpreter> ranks = afterOneStep(module);
  ASSERT_TRUE(succeeded(ranks));
  EXPECT_TRUE(failed(ranks->gatherState("w")));
  EXPECT_EQ(module.diagnostics(), "the padding of @w on rank 1 (stage 0, dp 0, tp 1) is not zero\n");
}

TEST(MeshSharding, TypeThatTheShardingDoesNotGiveIsADiagnostic) {
  TestModule module(oneStage(R"(
    hyc.param @w : tensor<4xf32> from #hyc.fill<1.0>
      {global_type = tensor<4xf32>, dist.sharding = #dist.sharding<[{tp}]>}
  )",
                             ""));
  EXPECT_TRUE(failed(MeshInterpreter::create(module.get(), {})));
  EXPECT_EQ(module.diagnostics(),
            "one rank holds tensor<2xf32> of 'tensor<4xf32>' by its sharding, but the type is 'tensor<4xf32>'\n");
}

TEST(MeshSharding, MeshOfTooManyRanksIsADiagnostic) {
  for (const char *sizes : {"[4096, 2]", "[4294967296, 4294967296]"}) {
    TestModule module(oneStage("", "", sizes));
    EXPECT_TRUE(failed(MeshInterpreter::create(module.get(), {})));
    EXPECT_NE(module.diagnostics(), "");
  }
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

namespace {
/// One f32 (or i64) vector per rank: element i of @x on world rank r is 10·r + i; `exchange` computes %r from it, which
/// is kept in @y. Ranks are a line along tp.
std::string exchange(const std::string &text, const std::string &operandType, const std::string &resultType,
                     int64_t size, int64_t ranks) {
  std::string count = std::to_string(size);
  return oneStage(
      R"(hyc.state @y role "y" : )" + resultType + " from #hyc.fill<0.0>\n",
      "%o = dist.shard_offset <{tp}> size 10 : tensor<i64>\n%f = hyc.convert %o : (tensor<i64>) -> tensor<f32>\n"
      "%b = hyc.broadcast %f [] : (tensor<f32>) -> tensor<" +
          count +
          "xf32>\n"
          "%i = hyc.iota dim 0 : tensor<" +
          count + "xf32>\n%x = hyc.add %b, %i : tensor<" + count +
          "xf32>\n"
          "%p = " +
          text + " : " + operandType + " -> !dist.pending<" + resultType +
          ">\n"
          "%r = dist.wait %p : !dist.pending<" +
          resultType + "> -> " + resultType +
          "\n"
          "hyc.write %r into @y : " +
          resultType,
      "[1, " + std::to_string(ranks) + "]");
}
} // namespace

TEST(MeshExchange, AllReduceGivesEveryMemberTheSumOrMaximum) {
  for (const char *kind : {"sum", "max"}) {
    TestModule module(exchange(std::string("dist.all_reduce_start ") + kind + " %x over <{tp}>", "tensor<2xf32>",
                               "tensor<2xf32>", 2, 3));
    llvm::FailureOr<MeshInterpreter> ranks = afterOneStep(module);
    ASSERT_TRUE(succeeded(ranks));
    EXPECT_TRUE(isNear(*ranks->gatherState("y"), kind == std::string("sum") ? f32({2}, {30, 33}) : f32({2}, {20, 21})));
  }
}

TEST(MeshExchange, AllGatherDropsThePaddingOfTheLastShard) {
  TestModule module(exchange("dist.all_gather_start %x dim 0 over <{tp}>", "tensor<2xf32>", "tensor<5xf32>", 2, 3));
  llvm::FailureOr<MeshInterpreter> ranks = afterOneStep(module);
  ASSERT_TRUE(succeeded(ranks));
  EXPECT_TRUE(isNear(*ranks->gatherState("y"), f32({5}, {0, 1, 10, 11, 20})));
}

TEST(MeshExchange, ReduceScatterGivesEachMemberItsShardOfTheSum) {
  TestModule module(exchange("dist.reduce_scatter_start %x dim 0 over <{tp}>", "tensor<3xf32>", "tensor<2xf32>", 3, 2));
  llvm::FailureOr<MeshInterpreter> ranks = afterOneStep(module);
  ASSERT_TRUE(succeeded(ranks));
  EXPECT_TRUE(isNear(*ranks->getLocalState(0, "y"), f32({2}, {10, 12})));
  EXPECT_TRUE(isNear(*ranks->getLocalState(1, "y"), f32({2}, {14, 0})));
}

TEST(MeshExchange, AllToAllMovesASplitFromOneDimensionToAnother) {
  // Of a 3 × 5 whole, row-major 0 to 14, rank r has columns 2r to 2r + 2, the last of them padding; then rows.
  TestModule module(oneStage(R"(hyc.state @y role "y" : tensor<1x5xf32> from #hyc.fill<0.0>)",
                             R"(%whole = hyc.iota dim 0 : tensor<15xf32>
                                %rows = hyc.reshape %whole : (tensor<15xf32>) -> tensor<3x5xf32>
                                %x = dist.slice %rows dim 1 over <{tp}> : tensor<3x5xf32> -> tensor<3x2xf32>
                                %p = dist.all_to_all_start %x split 0 concat 1 over <{tp}>
                                     : tensor<3x2xf32> -> !dist.pending<tensor<1x5xf32>>
                                %r = dist.wait %p : !dist.pending<tensor<1x5xf32>> -> tensor<1x5xf32>
                                hyc.write %r into @y : tensor<1x5xf32>)",
                             "[1, 3]"));
  llvm::FailureOr<MeshInterpreter> ranks = afterOneStep(module);
  ASSERT_TRUE(succeeded(ranks));
  EXPECT_TRUE(isNear(*ranks->getLocalState(0, "y"), f32({1, 5}, {0, 1, 2, 3, 4})));
  EXPECT_TRUE(isNear(*ranks->getLocalState(1, "y"), f32({1, 5}, {5, 6, 7, 8, 9})));
  EXPECT_TRUE(isNear(*ranks->getLocalState(2, "y"), f32({1, 5}, {10, 11, 12, 13, 14})));
}

TEST(MeshExchange, ShiftGivesWhatTheMemberSoManyPlacesBeforeHas) {
  TestModule module(exchange("dist.shift_start %x by 2 over <{tp}>", "tensor<2xf32>", "tensor<2xf32>", 2, 3));
  llvm::FailureOr<MeshInterpreter> ranks = afterOneStep(module);
  ASSERT_TRUE(succeeded(ranks));
  EXPECT_TRUE(isNear(*ranks->getLocalState(0, "y"), f32({2}, {10, 11})));
  EXPECT_TRUE(isNear(*ranks->getLocalState(1, "y"), f32({2}, {20, 21})));
  EXPECT_TRUE(isNear(*ranks->getLocalState(2, "y"), f32({2}, {0, 1})));
}

TEST(MeshExchange, ShardsThatDoNotCoverTheWholeAreADiagnostic) {
  TestModule module(exchange("dist.all_gather_start %x dim 0 over <{tp}>", "tensor<2xf32>", "tensor<7xf32>", 2, 3));
  llvm::FailureOr<MeshInterpreter> ranks = MeshInterpreter::create(module.get(), {});
  ASSERT_TRUE(succeeded(ranks)) << module.diagnostics();
  EXPECT_TRUE(failed(ranks->runStep({}, 0)));
  EXPECT_EQ(module.diagnostics(), "dim 0 of 7 has shards of 2, expected 3 for a group of 3\n");
}

TEST(MeshExchange, SliceTakesTheRanksShardOfAValueHeldWhole) {
  TestModule module(oneStage(R"(hyc.state @y role "y" : tensor<2xi64> from #hyc.fill<0.0>)",
                             R"(%x = hyc.iota dim 0 : tensor<3xi64>
                                %s = dist.slice %x dim 0 over <{tp}> : tensor<3xi64> -> tensor<2xi64>
                                hyc.write %s into @y : tensor<2xi64>)"));
  llvm::FailureOr<MeshInterpreter> ranks = afterOneStep(module);
  ASSERT_TRUE(succeeded(ranks));
  EXPECT_TRUE(isNear(*ranks->getLocalState(2, "y"), i64({2}, {0, 1})));
  EXPECT_TRUE(isNear(*ranks->getLocalState(3, "y"), i64({2}, {2, 0})));
}
