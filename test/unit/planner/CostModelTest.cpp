// The closed forms against the account of memory and the clock of the same layouts, planned as they are.
#include "hyc/Planner/CostModel.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/StepTime.h"
#include "hyc/Import/HuggingFace/Import.h"
#include "hyc/Pipelines/Pipelines.h"
#include "hyc/Planner/Search.h"
#include "mlir/Pass/PassManager.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace mlir;
using namespace hyc;

namespace {

constexpr int64_t kSequence = 64;

/// A Llama of ten layers, wide enough that products decide.
class CostModelTest : public testing::Test {
protected:
  CostModelTest() : context(MLIRContext::Threading::DISABLED) {
    context.loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>();
    path = testing::TempDir() + "/config.json";
    std::ofstream(path) << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
      "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 10,
      "vocab_size": 1000, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu",
      "tie_word_embeddings": false, "rope_theta": 10000.0})";
    base.loss = "cross_entropy";
    base.threads = 1;
    base.entry = "train";
    rates.tiers = {{"host", 4, 1e-6, {{1, 4e9}}}, {"cluster", 64, 2e-6, {{1, 1e9}}}};
    costs = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
  }

  FailureOr<OwningOpRef<ModuleOp>> read(int64_t batch) {
    HuggingFaceOptions options;
    options.batch = batch;
    options.sequence = kSequence;
    options.weights = FolderWeights::Initialise;
    return importHuggingFace(context, path, options);
  }

  /// The same layout through all phases.
  std::pair<double, double> planned(const Layout &layout, const std::vector<size_t> &ends) {
    CompileOptions options;
    static_cast<Plan &>(options) = base;
    Plan plan = withLayout(options, layout);
    for (size_t index = 0; index + 1 < ends.size(); ++index)
      plan.rules.cuts.push_back(costs->opOfLayer(ends[index]));
    FailureOr<OwningOpRef<ModuleOp>> module = read(layout.microBatch * layout.dp);
    JobAccount job;
    PassManager passes(&context);
    for (Phase phase : {Phase::Model, Phase::Train, Phase::Plan, Phase::Local})
      buildPhase(phase, passes, plan);
    buildAccount(passes, &job);
    EXPECT_TRUE(succeeded(passes.run(**module)));
    return {static_cast<double>(job.mostDeviceBytes()), estimateStep(**module, rates)->seconds()};
  }

  /// Holds the estimate to the plan: memory and time within the given parts of it, and the bound below it.
  void hold(const Layout &layout, double memory, double time) {
    const ModelCost *model = costs->costOfModel(layout);
    ASSERT_NE(model, nullptr);
    std::vector<size_t> ends = costs->cut(*model, layout.pp * layout.virtualStages);
    ASSERT_EQ(ends.size(), static_cast<size_t>(layout.pp * layout.virtualStages));
    LayoutCost cost = costs->costOf(*model, layout, ends);
    auto [bytes, seconds] = planned(layout, ends);
    EXPECT_LE(cost.leastBytes, bytes);
    EXPECT_NEAR(cost.bytes / bytes, 1, memory);
    EXPECT_NEAR(cost.seconds / seconds, 1, time);
  }

  MLIRContext context;
  std::string path;
  Plan base;
  MachineRates rates;
  std::unique_ptr<CostModel> costs;
};

TEST_F(CostModelTest, LayersAreCountedWithWhatStandsBeforeAndAfterThem) {
  ASSERT_TRUE(costs);
  EXPECT_EQ(costs->countLayers(), 12u);
  EXPECT_EQ(costs->fixedBatch(), 0);
}

TEST_F(CostModelTest, OneRankIsTheSumOfItsLayers) { hold({}, 0.03, 0.03); }

TEST_F(CostModelTest, TensorParallelism) {
  Layout layout;
  layout.tp = 4;
  layout.gradAccum = 3;
  hold(layout, 0.05, 0.03);
}

TEST_F(CostModelTest, DataParallelismInEveryZeroStage) {
  for (int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    Layout layout;
    layout.dp = 8;
    layout.zero = stage;
    hold(layout, 0.06, 0.1);
  }
}

TEST_F(CostModelTest, PipelinesUnderAllThree) {
  Layout layout;
  layout.tp = 2, layout.pp = 3, layout.dp = 2, layout.gradAccum = 6;
  hold(layout, 0.06, 0.08);
}

TEST_F(CostModelTest, MicroBatchesThatAreNotProbedLieBetweenThoseThatAre) {
  Layout layout;
  layout.microBatch = 3;
  hold(layout, 0.03, 0.03);
}

TEST_F(CostModelTest, RecomputationByLayer) {
  Layout layout;
  layout.recompute = "layer";
  layout.microBatch = 2;
  hold(layout, 0.05, 0.03);
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

TEST_F(CostModelTest, TheSearchTakesDivisorsThatAreNoPowersOfTwoAndKeepsWhatIsFixed) {
  SearchRequest request;
  request.ranks = 12;
  request.globalBatch = 36;
  request.fixed.pp = 3;
  request.isFixed = {memberOfPlan<&Plan::pp>};
  request.most = 100000;
  SearchResult found = searchLayouts(*costs, request);
  std::set<int64_t> micro;
  for (const ScoredLayout &each : found.best) {
    EXPECT_EQ(each.layout.pp, 3);
    EXPECT_EQ(each.layout.ranks(), 12);
    EXPECT_EQ(each.layout.globalBatch(), 36);
    EXPECT_EQ(each.cuts.size(), static_cast<size_t>(3 * each.layout.virtualStages - 1));
    micro.insert(each.layout.microBatch);
  }
  EXPECT_TRUE(micro.count(3) && micro.count(9));
  EXPECT_TRUE(llvm::is_sorted(
      found.best, [](const ScoredLayout &a, const ScoredLayout &b) { return a.cost.seconds < b.cost.seconds; }));
}

// Passing layouts over loses none: each that is left out needs more than the limit by its bound, or only moves things
// that fit.
TEST_F(CostModelTest, ALimitLeavesOutOnlyWhatTheBoundTells) {
  SearchRequest request;
  request.ranks = 4;
  request.globalBatch = 8;
  request.most = 100000;
  SearchResult all = searchLayouts(*costs, request);
  request.limit = all.best.front().cost.bytes * 0.7;
  SearchResult limited = searchLayouts(*costs, request);
  ASSERT_FALSE(limited.best.empty());
  auto fits = llvm::find_if(all.best, [&](const ScoredLayout &each) { return each.cost.leastBytes <= request.limit; });
  ASSERT_NE(fits, all.best.end());
  EXPECT_LE(limited.best.front().cost.seconds, fits->cost.seconds);
  for (const ScoredLayout &each : limited.best)
    EXPECT_LE(each.cost.leastBytes, request.limit);
}

} // namespace
