// plan.json: rules from a module, rules onto a module, text in between.
#include "Model/PlanRules.h"
#include "ScratchFolder.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Plan/PlanText.h"
#include "hyc/Support/DriverError.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace {

constexpr char kModule[] = R"(
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 4] stages 2 batch <{dp}> tensor <{tp}>
hyc.param @h.0.w : tensor<8x8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>}
hyc.param @h.1.w : tensor<8x8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {}]>}
hyc.param @h.2.w : tensor<8x8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>}
hyc.param @head : tensor<8x8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{tp}, {}]>}
hyc.func @microbatch(%x: tensor<8x8xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{dp}, {}]>}) {
  %w = hyc.read @h.1.w {id = "h.1.w.read", dist.stage = 1} : tensor<8x8xf32>
  %0 = hyc.neg %x {id = "h.0.neg", dist.stage = 0} : tensor<8x8xf32>
  %1 = hyc.neg %0 {id = "h.1.neg", dist.stage = 1} : tensor<8x8xf32>
  hyc.return
}
)";

struct PlanFileTest : testing::Test {
  PlanFileTest() { context.loadDialect<hyc::HycDialect, hyc::dist::DistDialect>(); }

  hyc::Plan planOf(const char *text) {
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return hyc::describePlan(*module);
  }

  std::string shardingOf(StringRef param) {
    std::string text;
    llvm::raw_string_ostream(text) << module->lookupSymbol(param)->getAttr(hyc::dist::kSharding);
    return text;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  ScratchFolder folder;
};

TEST_F(PlanFileTest, SummarizesLayersByOneRuleAndItsExceptions) {
  hyc::Plan plan = planOf(kModule);
  EXPECT_EQ(plan.tp, 4);
  EXPECT_EQ(plan.dp, 2);
  EXPECT_EQ(plan.pp, 2);
  EXPECT_EQ(plan.rules.cuts, std::vector<std::string>{"h.1.neg"});
  ASSERT_EQ(plan.rules.parameters.size(), 3u);
  EXPECT_EQ(plan.rules.parameters[0].match, "h.*.w");
  EXPECT_EQ(plan.rules.parameters[0].value, "[{}, {tp}]");
  EXPECT_EQ(plan.rules.parameters[1].match, "h.1.w");
  EXPECT_EQ(plan.rules.parameters[1].value, "[{}, {}]");
  EXPECT_EQ(plan.rules.parameters[2].match, "head");
  ASSERT_EQ(plan.rules.inputs.size(), 1u);
  EXPECT_EQ(plan.rules.inputs[0].value, "[{dp}, {}]");
}

TEST_F(PlanFileTest, ReadsBackWhatItWrites) {
  hyc::Plan plan = planOf(kModule);
  folder.write("plan.json", hyc::writePlan(plan));
  auto read = hyc::readPlan(folder.path("plan.json"));
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(hyc::writePlan(*read), hyc::writePlan(plan));
}

TEST_F(PlanFileTest, CutsBeforeEveryVirtualStage) {
  constexpr char text[] = R"(
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 virtual_stages 2 batch <{dp}> tensor <{tp}>
hyc.func @microbatch(%x: tensor<8x8xf32> {hyc.input = "x"}) {
  %0 = hyc.neg %x {id = "a", dist.stage = 0} : tensor<8x8xf32>
  %1 = hyc.neg %0 {id = "b", dist.stage = 1} : tensor<8x8xf32>
  %2 = hyc.neg %1 {id = "c", dist.stage = 2} : tensor<8x8xf32>
  %3 = hyc.neg %2 {id = "d", dist.stage = 3} : tensor<8x8xf32>
  hyc.return
}
)";
  hyc::Plan plan = planOf(text);
  EXPECT_EQ(plan.pp, 2);
  EXPECT_EQ(plan.virtualStages, 2);
  EXPECT_EQ(plan.rules.cuts, (std::vector<std::string>{"b", "c", "d"}));
  folder.write("plan.json", hyc::writePlan(plan));
  auto read = hyc::readPlan(folder.path("plan.json"));
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(read->virtualStages, 2);
  EXPECT_EQ(hyc::writePlan(*read), hyc::writePlan(plan));
}

TEST_F(PlanFileTest, AppliedToAModuleGivesTheSamePlan) {
  hyc::Plan plan = planOf(kModule);
  for (auto param : module->getOps<hyc::ParamOp>())
    param->removeAttr(hyc::dist::kSharding);
  ASSERT_FALSE(bool(hyc::applyShardingRules(plan.rules, *module)));
  EXPECT_EQ(shardingOf("h.0.w"), "#dist.sharding<[{}, {tp}]>");
  EXPECT_EQ(shardingOf("h.1.w"), "#dist.sharding<[{}, {}]>");
  EXPECT_EQ(hyc::writePlan(hyc::describePlan(*module)), hyc::writePlan(plan));
}

TEST_F(PlanFileTest, NamesLifetimesThatAreNotPlainSavingAndNothingElse) {
  constexpr char text[] = R"(
dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.func @microbatch(%x: tensor<8x8xf32> {hyc.input = "x"}) {
  %0 = hyc.neg %x {id = "h.0.act", dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : tensor<8x8xf32>
  %1 = hyc.neg %0 {id = "h.1.act", dist.stage = 0} : tensor<8x8xf32>
  %2 = hyc.neg %1 {id = "h.2.act", dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : tensor<8x8xf32>
  %3 = hyc.neg %2 {id = "h.0.out", dist.stage = 0, dist.lifetime = #dist.lifetime<save over {tp}>} : tensor<8x8xf32>
  %4 = hyc.neg %3 {id = "neg", dist.stage = 0} : tensor<8x8xf32>
  %5 = hyc.neg %4 {id = "h.0", dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : tensor<8x8xf32>
  %6 = hyc.neg %5 {id = "h.1", dist.stage = 0, dist.lifetime = #dist.lifetime<recompute>} : tensor<8x8xf32>
  %7 = hyc.neg %6 {id = "h.last", dist.stage = 0} : tensor<8x8xf32>
  hyc.return
}
)";
  hyc::Plan plan = planOf(text);
  std::vector<std::pair<std::string, std::string>> rules;
  for (const hyc::PlanRule &rule : plan.rules.lifetimes)
    rules.push_back({rule.match, rule.value});
  // "h.*" reaches h.last, which is told apart at the end.
  EXPECT_EQ(rules, (std::vector<std::pair<std::string, std::string>>{{"h.*.act", "recompute"},
                                                                     {"h.0.out", "save over {tp}"},
                                                                     {"h.*", "recompute"},
                                                                     {"h.1.act", "save"},
                                                                     {"h.last", "save"}}));
  auto function = module->lookupSymbol<hyc::FuncOp>("microbatch");
  for (Operation &op : function.getBody().front())
    op.removeAttr(hyc::dist::kLifetime);
  ASSERT_FALSE(bool(hyc::applyLifetimeRules(plan.rules, *module)));
  EXPECT_EQ(hyc::writePlan(hyc::describePlan(*module)), hyc::writePlan(plan));
  for (const char *lifetime : {"keep", "", "recompute over {tp}", "save over tp"}) {
    plan.rules.lifetimes = {{"h.0", lifetime}};
    llvm::Error error = hyc::applyLifetimeRules(plan.rules, *module);
    EXPECT_TRUE(bool(error)) << lifetime;
    llvm::consumeError(std::move(error));
  }
}

TEST_F(PlanFileTest, RefusesRulesThatCannotBe) {
  hyc::Plan plan = planOf(kModule);
  for (const char *sharding : {"[{}, {pp}]", "[{}, {tp}] partial {dp}", "[{}", "", "[{tp}, {tp}]"}) {
    plan.rules.parameters = {{"head", sharding}};
    llvm::Error error = hyc::applyShardingRules(plan.rules, *module);
    EXPECT_TRUE(bool(error)) << sharding;
    llvm::consumeError(std::move(error));
  }
}

TEST_F(PlanFileTest, StarStopsAtDots) {
  hyc::Plan plan = planOf(kModule);
  plan.rules.parameters = {{"*.w", "[{}, {}]"}};
  std::string message = llvm::toString(hyc::applyShardingRules(plan.rules, *module));
  EXPECT_NE(message.find("matches no parameter"), std::string::npos) << message;
  plan.rules.parameters = {{"h.*.*", "[{dp}, {}]"}};
  ASSERT_FALSE(bool(hyc::applyShardingRules(plan.rules, *module)));
  EXPECT_EQ(shardingOf("h.2.w"), "#dist.sharding<[{dp}, {}]>");
}

} // namespace
