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

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <random>

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
    std::vector<size_t> ends = costs->cut(*model, layout);
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

/// From a thread that is never waited for to one that is always: between them it waits in some layers' kernels, and
/// makes up for it in others.
TEST_F(CostModelTest, AThreadThatStartsKernelsRunsAheadThroughLayers) {
  for (double dispatch : {1e-5, 1e-4, 3e-4, 1e-3, 1e-2}) {
    SCOPED_TRACE(dispatch);
    rates.dispatch = dispatch;
    costs = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
    ASSERT_TRUE(costs);
    hold({}, 0.03, 0.06);
  }
}

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

/// From exchanges that cost kernels nothing to such that kernels stand still for.
TEST_F(CostModelTest, ExchangesThatSlowKernelsDown) {
  for (double share : {0.8, 0.4, 0.0})
    for (int64_t stage : {1, 2, 3}) {
      SCOPED_TRACE(std::to_string(share) + ", ZeRO " + std::to_string(stage));
      rates.overlapShare = share;
      costs = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
      ASSERT_TRUE(costs);
      Layout layout;
      layout.dp = 8;
      layout.zero = stage;
      hold(layout, 0.06, 0.1);
    }
}

/// Rings through four hosts whose rates are those of two.
TEST_F(CostModelTest, HopsOfRingsThroughMoreRanksThanWereMeasured) {
  rates.tiers[0].hopLatency = 2e-5;
  rates.tiers[1].hopLatency = 1e-4;
  rates.tiers[1].measuredRanks = 8;
  costs = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
  ASSERT_TRUE(costs);
  for (int64_t stage : {0, 1, 3}) {
    SCOPED_TRACE(stage);
    Layout layout;
    layout.dp = 16;
    layout.zero = stage;
    layout.prefetch = stage == 3;
    hold(layout, 0.06, 0.1);
  }
}

TEST_F(CostModelTest, GradientsThatAreRoundedForTheirSum) {
  Layout layout;
  layout.dp = 8;
  const ModelCost *model = costs->costOfModel(layout);
  double whole = costs->costOf(*model, layout, costs->cut(*model, layout)).seconds;
  base.communicationType = "bf16";
  costs = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
  ASSERT_TRUE(costs);
  model = costs->costOfModel(layout);
  EXPECT_LT(costs->costOf(*model, layout, costs->cut(*model, layout)).seconds, 0.8 * whole);
  hold(layout, 0.06, 0.1);
}

/// Each tensor is exchanged by itself then, with a latency each.
TEST_F(CostModelTest, BucketsOfNoElements) {
  base.reduceBucket = base.gatherBucket = 0;
  costs = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
  ASSERT_TRUE(costs);
  for (int64_t stage : {0, 1}) {
    SCOPED_TRACE(stage);
    Layout layout;
    layout.dp = 8;
    layout.zero = stage;
    hold(layout, 0.06, 0.1);
  }
}

/// A kernel for each parameter takes no less for a part of it where launching decides.
TEST_F(CostModelTest, LaunchesOfUpdatesAreNotDivided) {
  rates.launch = 1e-4;
  costs = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
  ASSERT_TRUE(costs);
  for (int64_t stage : {1, 2, 3}) {
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

TEST_F(CostModelTest, InterleavedPipelines) {
  for (int64_t pieces : {2, 3}) {
    SCOPED_TRACE(pieces);
    Layout layout;
    layout.pp = 2, layout.virtualStages = pieces, layout.gradAccum = 8;
    hold(layout, 0.06, 0.08);
  }
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

// Probes of one split begin with one plan, which none of them may change for the others.
TEST_F(CostModelTest, WhatIsProbedBeforeChangesNoCost) {
  std::vector<Layout> layouts;
  for (int64_t tp : {1, 4})
    for (bool sequence : {false, true})
      for (const char *recompute : {"none", "selective", "layer"})
        for (int64_t micro : {1, 2}) {
          Layout &layout = layouts.emplace_back();
          layout.tp = tp, layout.sequenceParallel = sequence && tp > 1;
          layout.recompute = recompute, layout.microBatch = micro;
        }
  std::vector<LayerCost> seen;
  for (const Layout &layout : layouts) {
    const ModelCost *model = costs->costOfModel(layout);
    ASSERT_NE(model, nullptr);
    auto alone = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
    const ModelCost *same = alone->costOfModel(layout);
    ASSERT_NE(same, nullptr);
    ASSERT_EQ(model->layers.size(), same->layers.size());
    for (auto [a, b] : llvm::zip(model->layers, same->layers)) {
      EXPECT_EQ(a.micro(), b.micro());
      EXPECT_EQ(a.saved, b.saved);
      EXPECT_EQ(a.transient, b.transient);
      EXPECT_EQ(a.parameters, b.parameters);
    }
    seen.push_back(model->layers[5]);
  }
  // Recomputing layers is told apart from saving them, and a split from none.
  EXPECT_GT(seen[0].saved, seen[4].saved);
  EXPECT_LT(seen[0].backward, seen[4].backward);
  EXPECT_GT(seen[0].saved, seen[12].saved);
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

TEST_F(CostModelTest, StatesThatLeaveTheDeviceAreAsFewAsHaveTo) {
  Layout none;
  none.gradAccum = 4;
  Layout all = none, optimizer = none;
  all.offloadOptimizer = all.offloadGradients = all.offloadParam = optimizer.offloadOptimizer = "cpu";
  const ModelCost *model = costs->costOfModel(none);
  ASSERT_NE(model, nullptr);
  std::vector<size_t> ends = costs->cut(*model, none);
  auto cost = [&](Layout layout, double room) {
    layout.room = room;
    return costs->costOf(*model, layout, ends);
  };
  LayoutCost most = cost(none, 0), least = cost(all, 0), optimizerAlone = cost(optimizer, 0);
  double last = most.seconds;
  for (double part : {0.1, 0.3, 0.5, 0.7, 0.9}) {
    double room = most.bytes - part * (most.bytes - least.bytes);
    LayoutCost partly = cost(all, room);
    EXPECT_NEAR(partly.bytes / room, 1, 1e-9) << part;
    EXPECT_GT(partly.seconds, last) << part; // the less room, the more is moved
    last = partly.seconds;
    EXPECT_LE(partly.leastBytes, partly.bytes);
  }
  EXPECT_LT(last, least.seconds);
  // Optimizer states go first: they move once a step.
  double room = (most.bytes + optimizerAlone.bytes) / 2;
  EXPECT_LT(cost(optimizer, room).seconds, optimizerAlone.seconds);
  // With room for all of it nothing moves.
  EXPECT_EQ(cost(optimizer, 2 * most.bytes).seconds, most.seconds);
}

TEST_F(CostModelTest, TheSearchMovesSingleStatesWhereNobodySaysWhich) {
  SearchRequest request;
  request.globalBatch = 4;
  Layout &fixed = request.fixed;
  request.isFixed = {memberOfPlan<&Plan::recompute>, memberOfPlan<&Plan::offloadActivations>,
                     memberOfPlan<&Plan::microBatch>};
  fixed.microBatch = 4;
  const double plain = searchLayouts(*costs, request).best.front().cost.bytes;
  request.limit = plain * 0.8;
  request.most = 100;
  auto fastestThatFits = [&] {
    SearchResult found = searchLayouts(*costs, request);
    for (const ScoredLayout &scored : found.best)
      if (scored.cost.bytes <= request.limit * (1 + 1e-9))
        return scored;
    ADD_FAILURE() << "nothing fits";
    return ScoredLayout();
  };
  ScoredLayout whole = fastestThatFits();
  request.movesSingly = true;
  ScoredLayout partly = fastestThatFits();
  EXPECT_EQ(whole.layout.room, 0);
  EXPECT_EQ(partly.layout.room, request.limit);
  EXPECT_LT(partly.cost.seconds, whole.cost.seconds);
  // What somebody has said is meant of all states.
  request.isFixed.push_back(memberOfPlan<&Plan::offloadOptimizer>);
  fixed.offloadOptimizer = "cpu";
  EXPECT_EQ(fastestThatFits().layout.room, 0);
}

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

TEST_F(CostModelTest, WhatNeedsLeastIsKnownBesideWhatIsFastest) {
  SearchRequest request;
  request.ranks = 4;
  request.globalBatch = 8;
  request.most = 100000;
  SearchResult all = searchLayouts(*costs, request);
  request.most = 1;
  SearchResult few = searchLayouts(*costs, request);
  ASSERT_FALSE(few.smallest.empty());
  std::vector<double> bytes;
  for (const ScoredLayout &each : all.best)
    bytes.push_back(each.cost.bytes);
  llvm::sort(bytes);
  for (auto [index, each] : llvm::enumerate(few.smallest)) {
    EXPECT_EQ(each.cost.bytes, bytes[index]);
    EXPECT_EQ(each.cuts.size(), static_cast<size_t>(each.layout.pp * each.layout.virtualStages - 1));
  }
}

//===----------------------------------------------------------------------===//
// Everything, one by one
//===----------------------------------------------------------------------===//

/// Of every layout that the search says it tries, the one that takes least time: loops over all numbers, no bound, no
/// early end.
class Exhaustive {
public:
  Exhaustive(CostModel &costs, const SearchRequest &request) : costs(costs), request(request) {}

  std::optional<ScoredLayout> run() {
    for (layout.tp = 1; layout.tp <= request.ranks; ++layout.tp)
      for (layout.pp = 1; layout.tp * layout.pp <= request.ranks; ++layout.pp)
        if (request.ranks % (layout.tp * layout.pp) == 0)
          withMesh();
    return best;
  }
  size_t looked = 0;

private:
  void withMesh() {
    layout.dp = request.ranks / layout.tp / layout.pp;
    for (layout.microBatch = 1; layout.microBatch * layout.dp <= request.globalBatch; ++layout.microBatch)
      if (request.globalBatch % (layout.microBatch * layout.dp) == 0)
        for (bool split : {false, true})
          for (const char *recompute : {"none", "selective", "layer"}) {
            layout.gradAccum = request.globalBatch / layout.microBatch / layout.dp;
            layout.sequenceParallel = split;
            layout.recompute = recompute;
            if (split && layout.tp == 1)
              continue;
            if (const ModelCost *model = costs.costOfModel(layout))
              withModel(*model);
          }
  }

  void withModel(const ModelCost &model) {
    int64_t layers = static_cast<int64_t>(costs.countLayers());
    for (layout.virtualStages = 1; layout.virtualStages * layout.pp <= layers; ++layout.virtualStages) {
      if (layout.virtualStages > 1 && (layout.pp == 1 || layout.gradAccum % layout.pp != 0))
        break;
      std::vector<size_t> ends = costs.cut(model, layout);
      if (static_cast<int64_t>(ends.size()) != layout.pp * layout.virtualStages)
        continue;
      for (layout.zero = 0; layout.zero <= (layout.dp > 1 ? 3 : 0); ++layout.zero)
        for (layout.prefetch = 0; layout.prefetch <= (layout.zero == 3 ? 1 : 0); ++layout.prefetch)
          withStates(model, ends);
    }
    layout.virtualStages = 1, layout.zero = 0, layout.prefetch = 0;
  }

  void withStates(const ModelCost &model, const std::vector<size_t> &ends) {
    for (int places = 0; places < 16; ++places) {
      auto place = [&](int bit) { return places & (1 << bit) ? "cpu" : "none"; };
      layout.offloadOptimizer = place(0), layout.offloadGradients = place(1);
      layout.offloadActivations = place(2), layout.offloadParam = place(3);
      if (layout.offloadGradients == OffloadPlace::Cpu && layout.offloadOptimizer == OffloadPlace::None)
        continue;
      LayoutCost cost = costs.costOf(model, layout, ends);
      ++looked;
      if (request.limit > 0 && cost.bytes > request.limit)
        continue;
      if (!best || cost.seconds < best->cost.seconds)
        best = ScoredLayout{layout, cost, {}};
    }
  }

  CostModel &costs;
  const SearchRequest &request;
  Layout layout;
  std::optional<ScoredLayout> best;
};

// Among what by its estimate fits, nothing is faster than the first that the search lists of that.
TEST_F(CostModelTest, TheSearchFindsWhatScoringEverythingFinds) {
  for (int64_t ranks : {1, 4, 6, 8, 12, 16, 30, 64}) {
    SearchRequest request;
    request.ranks = ranks;
    request.globalBatch = ranks == 30 ? 60 : 64;
    request.most = 1 << 20;
    SearchResult free = searchLayouts(*costs, request);
    ASSERT_FALSE(free.best.empty()) << ranks;
    double most = free.best.front().cost.bytes;
    for (double limit : {0.0, 0.8 * most, 0.4 * most, 0.2 * most}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, limit " << limit);
      request.limit = limit;
      SearchResult found = searchLayouts(*costs, request);
      Exhaustive everything(*costs, request);
      std::optional<ScoredLayout> best = everything.run();
      auto first =
          llvm::find_if(found.best, [&](const ScoredLayout &each) { return limit == 0 || each.cost.bytes <= limit; });
      ASSERT_EQ(best.has_value(), first != found.best.end());
      if (!best)
        continue;
      EXPECT_DOUBLE_EQ(first->cost.seconds, best->cost.seconds)
          << "of " << everything.looked << ": " << describeChange(first->layout, best->layout);
    }
  }
}

TEST_F(CostModelTest, TheSearchKeepsNoMoreThanIsWanted) {
  SearchRequest request;
  request.ranks = 8;
  request.globalBatch = 64;
  request.most = 1 << 20;
  SearchResult all = searchLayouts(*costs, request);
  ASSERT_GT(all.best.size(), 100u);
  request.most = 3;
  SearchResult few = searchLayouts(*costs, request);
  ASSERT_EQ(few.best.size(), 3u);
  for (size_t index = 0; index < 3; ++index)
    EXPECT_TRUE(few.best[index].layout == all.best[index].layout) << index;
}

//===----------------------------------------------------------------------===//
// The bound of time
//===----------------------------------------------------------------------===//

// Six for each weight of a layer's products and token, and two more where a product is computed again: all but the
// last, which makes what the next layer begins with. Attention, which has no weights, is a few percent.
TEST_F(CostModelTest, OperationsAreThoseOfEachWeightAndToken) {
  const double weights = 4.0 * 512 * 512 + 3.0 * 512 * 1024;
  for (const char *recompute : {"none", "layer"})
    for (int64_t tp : {1, 4})
      for (int64_t micro : {1, 2, 4, 16, 64}) {
        Layout layout;
        layout.tp = tp, layout.microBatch = micro, layout.recompute = recompute;
        const ModelCost *model = costs->costOfModel(layout);
        ASSERT_NE(model, nullptr);
        double ofToken = layout.recompute == RecomputeMode::Layer ? 8 * weights - 2 * 512.0 * 1024 : 6 * weights;
        double expected = ofToken * static_cast<double>(kSequence * micro) / static_cast<double>(tp);
        EXPECT_GE(model->layers[5].operations, expected);
        EXPECT_LE(model->layers[5].operations, 1.05 * expected);
      }
}

TEST_F(CostModelTest, NoLayoutTakesLessThanTheBoundOfTime) {
  SearchRequest request;
  request.ranks = 24;
  request.globalBatch = 48;
  request.most = 1 << 20;
  MachineRates shared = rates;
  shared.productShare = {{1e6, 0.1}, {1e8, 0.6}};
  shared.attentionShare = 0.4;
  for (const MachineRates &machine : {rates, shared}) {
    auto model = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, machine);
    std::vector<ScoredLayout> all = searchLayouts(*model, request).best;
    ASSERT_GT(all.size(), 1000u);
    double closest = 0;
    for (const ScoredLayout &scored : all) {
      double operations = 0;
      for (const LayerCost &layer : model->costOfModel(scored.layout)->layers)
        operations += layer.operations;
      std::optional<double> least = model->leastSeconds(operations, scored.layout, scored.layout.virtualStages);
      ASSERT_TRUE(least.has_value());
      ASSERT_LE(*least, scored.cost.seconds) << describeChange(Layout(), scored.layout);
      closest = std::max(closest, *least / scored.cost.seconds);
    }
    EXPECT_GT(closest, 0.2) << "a bound that tells nothing";
  }
}

// Micro-batches that are not looked at since all layouts with them are slower are missing in no list.
TEST_F(CostModelTest, MicroBatchesThatAreTooSlowAreInNoList) {
  for (double part : {0.0, 0.3}) {
    SCOPED_TRACE(part);
    SearchRequest request;
    request.ranks = 64;
    request.globalBatch = 1024;
    request.most = 1 << 20;
    SearchResult all = searchLayouts(*costs, request);
    EXPECT_EQ(all.tooSlow, 0u);
    request.limit = part * all.best.front().cost.bytes;
    if (part > 0)
      all = searchLayouts(*costs, request);
    auto fresh = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
    request.most = 20;
    SearchResult few = searchLayouts(*fresh, request);
    EXPECT_GT(few.tooSlow, 0u);
    EXPECT_LT(fresh->countProbes(), costs->countProbes());
    ASSERT_EQ(few.best.size(), 20u);
    for (size_t index = 0; index < few.best.size(); ++index)
      EXPECT_TRUE(few.best[index].layout == all.best[index].layout) << index;
    ASSERT_EQ(few.ofSplits.size(), all.ofSplits.size());
    for (auto [a, b] : llvm::zip_equal(few.ofSplits, all.ofSplits)) {
      EXPECT_TRUE(a.layout == b.layout) << describeChange(a.layout, b.layout);
      EXPECT_EQ(a.cost.seconds, b.cost.seconds);
    }
    EXPECT_TRUE(few.closest->layout == all.closest->layout);
  }
}

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

/// Of layers that take these many seconds, the slowest stage's under a cut: stages have chunks in turns.
double slowestStage(const std::vector<double> &seconds, const std::vector<size_t> &ends, int64_t stages) {
  std::vector<double> sums(static_cast<size_t>(stages), 0);
  for (size_t chunk = 0, layer = 0; chunk < ends.size(); ++chunk)
    for (; layer < ends[chunk]; ++layer)
      sums[chunk % sums.size()] += seconds[layer];
  return *std::max_element(sums.begin(), sums.end());
}

/// Tries every cut into so many chunks that begins with `ends`.
double leastOfAll(const std::vector<double> &seconds, size_t chunks, int64_t stages, std::vector<size_t> &ends) {
  if (ends.size() + 1 == chunks) {
    ends.push_back(seconds.size());
    double slowest = slowestStage(seconds, ends, stages);
    ends.pop_back();
    return slowest;
  }
  double least = INFINITY;
  size_t begin = ends.empty() ? 0 : ends.back();
  for (size_t end = begin + 1; end + chunks - ends.size() - 1 <= seconds.size(); ++end) {
    ends.push_back(end);
    least = std::min(least, leastOfAll(seconds, chunks, stages, ends));
    ends.pop_back();
  }
  return least;
}

/// Equal layers between an embedding and a head of any weight, as models have them.
TEST_F(CostModelTest, InterleavedStagesAreCutAsWellAsTryingAllCuts) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    Layout layout;
    layout.pp = 2 + round % 3;
    layout.virtualStages = layout.pp == 4 ? 2 : 2 + round % 2;
    size_t chunks = static_cast<size_t>(layout.pp * layout.virtualStages);
    std::vector<double> seconds(chunks + random() % 6 + 2, 1);
    seconds.front() = 0.01 * static_cast<double>(random() % 100);
    seconds.back() = 0.01 * static_cast<double>(random() % 400);
    ModelCost model;
    for (double each : seconds) {
      LayerCost layer;
      layer.forward = each;
      model.layers.push_back(layer);
    }
    std::vector<size_t> ends = costs->cut(model, layout), none;
    ASSERT_EQ(ends.size(), chunks);
    ASSERT_EQ(ends.back(), seconds.size());
    EXPECT_NEAR(slowestStage(seconds, ends, layout.pp), leastOfAll(seconds, chunks, layout.pp, none), 1e-9)
        << "round " << round << ", pp " << layout.pp << " × " << layout.virtualStages << ", " << seconds.size()
        << " layers, the first " << seconds.front() << ", the last " << seconds.back();
  }
}

//===----------------------------------------------------------------------===//
// Ranks of several kinds
//===----------------------------------------------------------------------===//

class KindsTest : public CostModelTest {
protected:
  KindsTest() {
    rates.tiers.clear();
    double products = rates.products, narrow = rates.narrowProducts, memory = rates.memory;
    rates.kinds = {{"fast", 2, products, narrow, 0, memory, 0},
                   {"slow", 2, products / 3, narrow / 3, 0, memory / 3, 0}};
    costs = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
  }
};

TEST_F(KindsTest, SlowStagesGetFewerLayers) {
  Layout layout;
  layout.pp = 2, layout.dp = 2, layout.gradAccum = 4;
  const ModelCost *model = costs->costOfModel(layout);
  ASSERT_NE(model, nullptr);
  std::vector<size_t> ends = costs->cut(*model, layout);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_GE(ends[0], 8u) << "of 12 layers three quarters";
  std::vector<size_t> half{6, 12};
  EXPECT_LT(costs->costOf(*model, layout, ends).seconds, 0.75 * costs->costOf(*model, layout, half).seconds);
  hold(layout, 0.06, 0.1);
}

TEST_F(KindsTest, SlowCoordinatesGetFewerMicroBatches) {
  Layout layout;
  layout.dp = 4, layout.gradAccum = 8;
  const ModelCost *model = costs->costOfModel(layout);
  ASSERT_NE(model, nullptr);
  std::vector<size_t> ends = costs->cut(*model, layout);
  LayoutCost shared = costs->costOf(*model, layout, ends);
  EXPECT_EQ(shared.shares, (std::vector<int64_t>{12, 12, 4, 4}));
  // Where ranks meet in every micro-batch, all wait for the slowest.
  layout.zero = 2;
  LayoutCost even = costs->costOf(*model, layout, ends);
  EXPECT_TRUE(even.shares.empty());
  EXPECT_LT(shared.seconds, 0.6 * even.seconds);
}

TEST_F(KindsTest, RanksThatMayShareABatchUnevenlyHaveNoBoundOfTime) {
  Layout layout;
  layout.dp = 4, layout.gradAccum = 8;
  EXPECT_FALSE(costs->leastSeconds(1e12, layout, 1).has_value());
}

TEST_F(KindsTest, RanksThatAreAlikeShareEvenly) {
  Layout layout;
  layout.dp = 2, layout.gradAccum = 8; // both of the fast kind
  const ModelCost *model = costs->costOfModel(layout);
  ASSERT_NE(model, nullptr);
  EXPECT_TRUE(costs->costOf(*model, layout, costs->cut(*model, layout)).shares.empty());
}

TEST_F(KindsTest, MemoryIsMeasuredByWhatTheRanksOfAStageHave) {
  Layout layout;
  layout.pp = 2, layout.dp = 2, layout.gradAccum = 4;
  auto costWith = [&](double machine, double fast, double slow) {
    rates.deviceMemory = machine, rates.kinds[0].deviceMemory = fast, rates.kinds[1].deviceMemory = slow;
    costs = CostModel::create([this](int64_t batch) { return read(std::max<int64_t>(1, batch)); }, base, rates);
    const ModelCost *model = costs->costOfModel(layout);
    return costs->costOf(*model, layout, costs->cut(*model, layout));
  };
  LayoutCost alike = costWith(2e9, 2e9, 2e9), scarce = costWith(2e9, 2e9, 1e8), untold = costWith(1e9, 0, 1e9);
  EXPECT_EQ(alike.bytes, alike.ownBytes);
  EXPECT_EQ(scarce.tightest, 1u);
  EXPECT_NEAR(scarce.bytes, 20 * scarce.ownBytes, 1e-6 * scarce.bytes);
  EXPECT_EQ(untold.tightest, 1u) << "ranks of which nothing is told are not limited";
  EXPECT_EQ(untold.bytes, scarce.ownBytes);
}

} // namespace
