// The first oracle: a random graph, planned and partitioned over a random mesh and executed by all its ranks, computes
// what one device computes, over tensors at phase 4 and over arenas of bytes at phase 5. Everything runs in f64, so
// that only a wrong program can differ by more than 1e-9.
#include "RandomGraph.h"
#include "TrainedModule.h"
#include "dialects/Dist/DistDialect.h"
#include "hyc/Analysis/Layers.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "hyc/Interpreter/RankInterpreter.h"
#include "mlir/IR/Builders.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <regex>
#include <set>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {
/// How one seed's graph is spread.
struct Layout {
  int64_t tp, pp, dp, microBatch, microBatches, steps;
  std::string schedule, optimizer;

  explicit Layout(uint64_t seed);
  std::string describe() const;
};

Layout::Layout(uint64_t seed) {
  std::mt19937_64 random(seed * 77 + 5);
  static const int64_t kMeshes[][3] = {{2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {4, 1, 1}, {1, 4, 1}, {1, 1, 4}, {2, 2, 1},
                                       {2, 1, 2}, {1, 2, 2}, {2, 2, 2}, {3, 1, 1}, {1, 3, 1}, {1, 1, 3}, {3, 2, 1}};
  const int64_t *mesh = kMeshes[random() % std::size(kMeshes)];
  tp = mesh[0], pp = mesh[1], dp = mesh[2];
  microBatch = 1 + static_cast<int64_t>(random() % 2);
  microBatches = 1 + static_cast<int64_t>(random() % 4);
  steps = 2;
  schedule = random() % 2 ? "1f1b" : "gpipe";
  static const char *kOptimizers[] = {"optimizer=sgd", "optimizer=sgd momentum=0.9 weight-decay=0.01",
                                      "optimizer=adamw weight-decay=0.1", "optimizer=adamw clip-grad-norm=0.05"};
  optimizer = kOptimizers[random() % std::size(kOptimizers)];
}

std::string Layout::describe() const {
  return "tp " + std::to_string(tp) + ", pp " + std::to_string(pp) + ", dp " + std::to_string(dp) + ", micro-batch " +
         std::to_string(microBatch) + " × " + std::to_string(microBatches) + ", " + schedule + ", " + optimizer;
}

/// Cuts the forward ops of @microbatch at random positions, not only between layers: any number of values crosses.
void presetStages(TrainedModule &module, int64_t stages, uint64_t seed) {
  auto function = module.get().lookupSymbol<hyc::FuncOp>("microbatch");
  std::vector<mlir::Operation *> ops;
  for (const hyc::Layer &layer : hyc::findLayers(function))
    ops.insert(ops.end(), layer.begin(), layer.end());
  std::mt19937_64 random(seed);
  std::set<size_t> cuts;
  while (static_cast<int64_t>(cuts.size()) + 1 < stages)
    cuts.insert(1 + random() % (ops.size() - 1));
  mlir::Builder builder(function.getContext());
  for (size_t i = 0; i < ops.size(); ++i)
    ops[i]->setAttr(hyc::dist::kStage, builder.getI64IntegerAttr(std::distance(cuts.begin(), cuts.upper_bound(i))));
}

/// Plans and partitions a phase 2 module in place.
bool partition(TrainedModule &module, const Layout &layout, uint64_t seed) {
  std::string mesh = "hyc-create-mesh{dp=" + std::to_string(layout.dp) + " tp=" + std::to_string(layout.tp) +
                     " pp=" + std::to_string(layout.pp) + "}";
  if (!module.transform(mesh + ",hyc-seed-shardings,hyc-propagate-shardings"))
    return false;
  if (layout.pp > 1 && seed % 3 != 0)
    presetStages(module, layout.pp, seed);
  return module.transform("hyc-assign-stages,hyc-build-schedule{schedule=" + layout.schedule +
                          " micro-batches=" + std::to_string(layout.microBatches) + "},hyc-verify-plan") &&
         module.transform("hyc-partition,hyc-cut-stages,hyc-reduce-gradients,hyc-distribute-update,hyc-verify-local");
}

int64_t countLayers(const TrainedModule &module) {
  return static_cast<int64_t>(hyc::findLayers(module.get().lookupSymbol<hyc::FuncOp>("microbatch")).size());
}

/// Largest difference, over the largest magnitude expected (at least 1e-3).
double relativeDifference(const Tensor &actual, const Tensor &expected) {
  double difference = 0, magnitude = 1e-3;
  for (int64_t i = 0; i < expected.getNumElements(); ++i) {
    difference = std::fmax(difference, std::fabs(actual.getDouble(i) - expected.getDouble(i)));
    if (std::isnan(actual.getDouble(i)) != std::isnan(expected.getDouble(i)))
      return INFINITY;
    magnitude = std::fmax(magnitude, std::fabs(expected.getDouble(i)));
  }
  return difference / magnitude;
}

class Comparison {
public:
  explicit Comparison(uint64_t seed) : seed(seed), layout(seed) {}
  void run();
  /// The partitioned module as text; empty after a failure.
  std::string partitionedText();

private:
  RandomGraph makeGraph() const;
  std::string trainPipeline() const {
    return "hyc-differentiate,hyc-attach-optimizer{" + layout.optimizer + "},hyc-verify-train";
  }
  template <typename Ranks> void compareSteps(TrainedModule &whole, TrainedModule &parts, const std::string &phase);
  template <typename Ranks> void compareStep(Interpreter &one, Ranks &all, int64_t step);
  std::string where() const { return "seed " + std::to_string(seed) + ": " + layout.describe(); }

  uint64_t seed;
  Layout layout;
  RandomGraph graph;
};

RandomGraph Comparison::makeGraph() const {
  RandomGraphOptions options;
  options.samples = layout.microBatch * layout.dp;
  options.headMultiple = layout.tp;
  options.blocks = 3 + static_cast<int64_t>(seed % 6);
  return makeRandomGraph(seed, options);
}

std::string Comparison::partitionedText() {
  TrainedModule parts(makeGraph().module, trainPipeline());
  if (parts)
    layout.pp = std::min(layout.pp, countLayers(parts));
  return parts && partition(parts, layout, seed) ? parts.print() : "";
}

void Comparison::run() {
  graph = makeGraph();
  TrainedModule whole(graph.module, trainPipeline()), parts(graph.module, trainPipeline());
  ASSERT_TRUE(whole && parts) << where() << "\n" << whole.diagnostics() << graph.module;
  layout.pp = std::min(layout.pp, countLayers(parts));
  ASSERT_TRUE(partition(parts, layout, seed)) << where() << "\n" << parts.diagnostics() << graph.module;

  compareSteps<MeshInterpreter>(whole, parts, "phase 4");
  if (testing::Test::HasFailure())
    return;
  if (!parts.enter(hyc::Phase::Rank, {})) { // the target may lack a kernel, and has to say so
    EXPECT_NE(parts.diagnostics().find("has no kernel on this target"), std::string::npos) << where() << "\n"
                                                                                           << parts.diagnostics();
    return;
  }
  compareSteps<RankInterpreter>(whole, parts, "phase 5");
}

template <typename Ranks>
void Comparison::compareSteps(TrainedModule &whole, TrainedModule &parts, const std::string &phase) {
  Options wide;
  wide.arithmetic = Arithmetic::Wide;
  llvm::FailureOr<Interpreter> one = Interpreter::create(whole.get(), wide);
  llvm::FailureOr<Ranks> all = Ranks::create(parts.get(), wide);
  ASSERT_TRUE(succeeded(one) && succeeded(all)) << where() << ", " << phase << "\n"
                                                << whole.diagnostics() << parts.diagnostics();
  for (int64_t step = 0; step < layout.steps && !testing::Test::HasFailure(); ++step)
    compareStep(*one, *all, step);
  if (testing::Test::HasFailure())
    ADD_FAILURE() << where() << ", " << phase << "\n" << whole.diagnostics() << parts.diagnostics();
  if (testing::Test::HasFailure() && std::getenv("HYC_EQUIVALENCE_PRINT"))
    std::fprintf(stderr, "%s\n%s\n", graph.module.c_str(), parts.print().c_str());
}

template <typename Ranks> void Comparison::compareStep(Interpreter &one, Ranks &all, int64_t step) {
  NamedTensors batch = makeRandomBatch(graph, seed * 10 + static_cast<uint64_t>(step), layout.microBatches);
  llvm::FailureOr<StepResult> expected = runTrainStep(one, *splitMicroBatches(batch, layout.microBatches), 0.01);
  llvm::FailureOr<StepResult> actual = all.runStep(batch, 0.01);
  ASSERT_TRUE(succeeded(expected) && succeeded(actual)) << "step " << step;
  EXPECT_NEAR(actual->lossSum, expected->lossSum, 1e-9 * std::fmax(1, std::fabs(expected->lossSum))) << "step " << step;
  EXPECT_EQ(actual->tokenCount, expected->tokenCount);
  EXPECT_NEAR(actual->gradNorm, expected->gradNorm, 1e-9 * std::fmax(1, expected->gradNorm)) << "step " << step;
  for (const std::string &parameter : graph.parameters)
    for (const std::string &symbol : {parameter + ".grad", parameter}) {
      if (!one.getState(symbol))
        continue;
      llvm::FailureOr<Tensor> gathered = all.gatherState(symbol);
      ASSERT_TRUE(succeeded(gathered)) << symbol << " in step " << step;
      EXPECT_LT(relativeDifference(*gathered, *one.getState(symbol)), 1e-9) << symbol << " in step " << step;
    }
}

/// HYC_EQUIVALENCE_SEEDS=FIRST:COUNT runs other seeds than the tests'.
std::pair<uint64_t, uint64_t> chosenSeeds() {
  const char *text = std::getenv("HYC_EQUIVALENCE_SEEDS");
  unsigned long long first = 0, count = 240;
  if (text && std::sscanf(text, "%llu:%llu", &first, &count) != 2) {
    std::fprintf(stderr, "HYC_EQUIVALENCE_SEEDS is \"%s\", expected FIRST:COUNT\n", text);
    std::exit(64);
  }
  return {first, count};
}
} // namespace

/// What the seeds are meant to try does occur in them.
TEST(PartitionedGraphs, CoverEveryKindOfExchange) {
  struct Feature {
    const char *text;
    int least, found;
  } features[] = {{"dist.all_reduce_start sum", 100, 0},
                  {"dist.all_reduce_start max", 10, 0},
                  {"hyc.vocab_sum_exp", 10, 0},
                  {"over <{tp}>", 40, 0},
                  {"over <{dp}>", 40, 0},
                  {"dist.channel", 50, 0},
                  {"over <{} stages [0, 1]>", 20, 0},
                  {"hyc.saved", 100, 0}};
  for (uint64_t seed = 0; seed < 120; ++seed) {
    std::string text = std::regex_replace(Comparison(seed).partitionedText(), std::regex(" +"), " ");
    for (Feature &feature : features)
      feature.found += text.find(feature.text) != std::string::npos;
  }
  for (const Feature &feature : features)
    EXPECT_GE(feature.found, feature.least) << feature.text;
  if (std::getenv("HYC_EQUIVALENCE_PRINT"))
    for (const Feature &feature : features)
      std::fprintf(stderr, "%4d of 120 graphs: %s\n", feature.found, feature.text);
}

class Partitioned : public testing::TestWithParam<uint64_t> {};

TEST_P(Partitioned, ComputesWhatOneDeviceComputes) { Comparison(GetParam()).run(); }

INSTANTIATE_TEST_SUITE_P(RandomGraphs, Partitioned,
                         testing::Range(chosenSeeds().first, chosenSeeds().first + chosenSeeds().second));
