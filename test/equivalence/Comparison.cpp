// Comparing all ranks with one device, step by step.
#include "Comparison.h"

#include "dialects/Dist/DistDialect.h"
#include "hyc/Analysis/Layers.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "hyc/Interpreter/RankInterpreter.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <regex>
#include <set>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

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
  static const char *kOptimizers[] = {"optimizer=sgd",
                                      "optimizer=sgd momentum=0.9 weight-decay=0.01",
                                      "optimizer=adamw weight-decay=0.1",
                                      "optimizer=adamw clip-grad-norm=0.05",
                                      "optimizer=adam weight-decay=0.1 correct-bias=false cycle-momentum",
                                      "optimizer=lamb weight-decay=0.1 clip-grad-norm=0.05",
                                      "optimizer=lamb weight-decay=0.1 least-trust=0.5 most-trust=2 cycle-momentum",
                                      "optimizer=lion weight-decay=0.1"};
  optimizer = kOptimizers[random() % std::size(kOptimizers)];
  // Where only rounding decides a sign, ranks may part, and everything after that step with them.
  if (isLion())
    steps = 1;
}

std::string Layout::describe() const {
  return "tp " + std::to_string(tp) + ", pp " + std::to_string(pp) +
         (virtualStages > 1 ? " × " + std::to_string(virtualStages) : "") + ", dp " + std::to_string(dp) +
         ", micro-batch " + std::to_string(microBatch) + " × " + std::to_string(microBatches) + ", " + schedule + ", " +
         optimizer;
}

/// Cuts the forward ops of @microbatch at random positions, not only between layers: any number of values crosses.
static void presetStages(TrainedModule &module, int64_t chunks, uint64_t seed) {
  auto function = module.get().lookupSymbol<hyc::FuncOp>("microbatch");
  std::vector<mlir::Operation *> ops;
  for (const hyc::Layer &layer : hyc::findLayers(function))
    ops.insert(ops.end(), layer.begin(), layer.end());
  std::mt19937_64 random(seed);
  std::set<size_t> cuts;
  while (static_cast<int64_t>(cuts.size()) + 1 < chunks)
    cuts.insert(1 + random() % (ops.size() - 1));
  mlir::Builder builder(function.getContext());
  for (size_t i = 0; i < ops.size(); ++i)
    ops[i]->setAttr(hyc::dist::kStage, builder.getI64IntegerAttr(std::distance(cuts.begin(), cuts.upper_bound(i))));
}

static int64_t countLayers(const TrainedModule &module) {
  return static_cast<int64_t>(hyc::findLayers(module.get().lookupSymbol<hyc::FuncOp>("microbatch")).size());
}

/// Largest difference, over the largest magnitude expected (at least 1e-3), of the elements that `moment`, where given,
/// moves for more than rounding's sake.
static double relativeDifference(const Tensor &actual, const Tensor &expected, const Tensor *moment = nullptr) {
  double difference = 0, magnitude = 1e-3;
  for (int64_t i = 0; i < expected.getNumElements(); ++i) {
    if (moment && std::fabs(moment->getDouble(i)) < 1e-12)
      continue;
    difference = std::fmax(difference, std::fabs(actual.getDouble(i) - expected.getDouble(i)));
    if (std::isnan(actual.getDouble(i)) != std::isnan(expected.getDouble(i)))
      return INFINITY;
    magnitude = std::fmax(magnitude, std::fabs(expected.getDouble(i)));
  }
  return difference / magnitude;
}

Comparison::Comparison(uint64_t seed) : seed(seed), layout(seed) {
  options.samples = layout.microBatch * layout.dp;
  options.headMultiple = layout.tp;
  options.blocks = 3 + static_cast<int64_t>(seed % 6);
}

/// A chunk has at least one layer, and what interleaves has whole groups of micro-batches.
void Comparison::fitToLayers(int64_t layers) {
  if (layout.virtualStages == 1 || layers < 4) {
    layout.pp = std::min(layout.pp, layers);
    layout.virtualStages = 1;
    return;
  }
  layout.pp = std::min(layout.pp, layers / 2);
  layout.virtualStages = std::min(layout.virtualStages, layers / layout.pp);
  layout.microBatches = (layout.microBatches + layout.pp - 1) / layout.pp * layout.pp;
}

/// Plans a phase 2 module in place.
bool Comparison::plan(TrainedModule &module) {
  fitToLayers(countLayers(module));
  if (!module.transform("hyc-create-mesh{dp=" + std::to_string(layout.dp) + " tp=" + std::to_string(layout.tp) +
                        " pp=" + std::to_string(layout.pp) + " virtual-stages=" + std::to_string(layout.virtualStages) +
                        layout.axes + "}"))
    return false;
  if (edit)
    edit(module);
  if (!module.transform("hyc-seed-shardings{" + seeds + "},hyc-propagate-shardings,hyc-shard-states{" + zero + "}"))
    return false;
  if (layout.pp > 1 && seed % 3 != 0)
    presetStages(module, layout.pp * layout.virtualStages, seed);
  return module.transform("hyc-assign-stages,hyc-build-schedule{schedule=" + layout.schedule +
                          " micro-batches=" + std::to_string(layout.microBatches) + "},hyc-record-policies" +
                          (policies.empty() ? "" : "{policies=" + policies + "}") + ",hyc-verify-plan");
}

bool Comparison::partition(TrainedModule &module) {
  return module.transform("hyc-partition,hyc-cut-stages,hyc-reduce-gradients,hyc-distribute-update,"
                          "hyc-prefetch-parameters,hyc-delay-waits,hyc-verify-local");
}

bool Comparison::isAccepted(std::string &diagnostics) {
  TrainedModule parts(makeGraph(seed, options).module, trainPipeline());
  bool accepted = parts && plan(parts);
  diagnostics = parts.diagnostics();
  return accepted;
}

std::string Comparison::partitionedText() {
  TrainedModule parts(makeGraph(seed, options).module, trainPipeline());
  return parts && plan(parts) && partition(parts) ? parts.print() : "";
}

std::string MutantOutcome::kindName() const {
  static const char *const kNames[] = {"sound", "hangs", "fails", "differs"};
  return kNames[kind];
}

/// Of one step.
struct StepValues {
  double loss = 0;
  std::vector<Tensor> states;

  /// To the last bit.
  bool operator==(const StepValues &other) const {
    return loss == other.loss && llvm::equal(states, other.states, [](const Tensor &a, const Tensor &b) {
             return a.getNumElements() == b.getNumElements() && relativeDifference(a, b) == 0;
           });
  }
};

/// Nothing where a rank fails.
static std::optional<StepValues> stepOf(mlir::ModuleOp module, const RandomGraph &graph, const NamedTensors &batch) {
  Options wide;
  wide.arithmetic = Arithmetic::Wide;
  llvm::FailureOr<MeshInterpreter> ranks = MeshInterpreter::create(module, wide);
  if (failed(ranks))
    return std::nullopt;
  llvm::FailureOr<StepResult> step = ranks->runStep(batch, 0.01);
  if (failed(step))
    return std::nullopt;
  StepValues values{step->lossSum, {}};
  for (const std::string &parameter : graph.parameters) {
    llvm::FailureOr<Tensor> state = ranks->gatherState(parameter);
    if (failed(state))
      return std::nullopt;
    values.states.push_back(std::move(*state));
  }
  return values;
}

/// What phase 4 checks at its end.
static bool isAcceptedAtTheEnd(mlir::ModuleOp module) {
  mlir::PassManager passes(module.getContext());
  passes.addPass(hyc::createVerifyLocal());
  passes.addPass(hyc::createCheckSchedules());
  passes.addPass(hyc::createCheckCommunication());
  return succeeded(mlir::verify(module)) && succeeded(passes.run(module));
}

std::vector<MutantOutcome> Comparison::runChanged(const std::vector<std::function<void(mlir::ModuleOp)>> &changes) {
  graph = makeGraph(seed, options);
  TrainedModule parts(graph.module, trainPipeline());
  if (!parts || !plan(parts) || !partition(parts)) {
    ADD_FAILURE() << where() << "\n" << parts.diagnostics();
    return {};
  }
  NamedTensors batch = makeRandomBatch(graph, seed, layout.microBatches);
  std::optional<StepValues> expected;
  std::vector<MutantOutcome> outcomes;
  for (size_t index = 0; index <= changes.size(); ++index) {
    mlir::OwningOpRef<mlir::ModuleOp> copy(parts.get().clone());
    if (index > 0)
      changes[index - 1](*copy);
    size_t before = parts.diagnostics().size();
    MutantOutcome outcome;
    if (!isAcceptedAtTheEnd(*copy))
      outcome.refusal = parts.diagnostics().substr(before) + " ";
    before = parts.diagnostics().size();
    std::optional<StepValues> actual = stepOf(*copy, graph, batch);
    outcome.failure = parts.diagnostics().substr(before);
    if (index == 0)
      expected = actual;
    if (!actual)
      outcome.kind =
          outcome.failure.find("deadlock") != std::string::npos ? MutantOutcome::Hangs : MutantOutcome::Fails;
    else if (!expected || !(*actual == *expected))
      outcome.kind = MutantOutcome::Differs;
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

void Comparison::run() {
  graph = makeGraph(seed, options);
  TrainedModule whole(graph.module, trainPipeline()), parts(graph.module, trainPipeline());
  ASSERT_TRUE(whole && parts) << where() << "\n" << whole.diagnostics() << graph.module;
  ASSERT_TRUE(plan(parts) && partition(parts)) << where() << "\n" << parts.diagnostics() << graph.module;

  compareSteps<MeshInterpreter>(whole, parts, "phase 4");
  if (testing::Test::HasFailure())
    return;
  if (!parts.enter(hyc::Phase::Rank, hyc::Plan())) { // the target may lack a kernel, and has to say so
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
  // Adam and LAMB divide by |gradient| + 1e-8: where a gradient is zero but for rounding, its 1e-16 become 1e-8 of a
  // step.
  const bool divides = layout.uses("adam") || layout.uses("lamb");
  const double afterUpdate = divides ? 1e-6 : 1e-9;
  const double tolerance = step == 0 ? 1e-9 : afterUpdate;
  EXPECT_NEAR(actual->lossSum, expected->lossSum, tolerance * std::fmax(1, std::fabs(expected->lossSum)))
      << "step " << step;
  EXPECT_EQ(actual->tokenCount, expected->tokenCount);
  EXPECT_NEAR(actual->gradNorm, expected->gradNorm, tolerance * std::fmax(1, expected->gradNorm)) << "step " << step;
  for (const std::string &parameter : graph.parameters)
    for (const std::string &symbol : {parameter + ".grad", parameter}) {
      if (!one.getState(symbol))
        continue;
      llvm::FailureOr<Tensor> gathered = all.gatherState(symbol);
      ASSERT_TRUE(succeeded(gathered)) << symbol << " in step " << step;
      // LAMB leaves its direction in the place of the gradient.
      const bool isUpdated = symbol == parameter || layout.uses("lamb");
      const Tensor *moment = layout.isLion() && symbol == parameter ? one.getState(parameter + ".lion.m") : nullptr;
      EXPECT_LT(relativeDifference(*gathered, *one.getState(symbol), moment), isUpdated ? afterUpdate : tolerance)
          << symbol << " in step " << step;
    }
}

void hyc::equivalence::expectFeatures(std::initializer_list<Feature> features, uint64_t seeds,
                                      const std::function<Comparison(uint64_t)> &comparisonOf) {
  std::vector<std::regex> patterns;
  for (const Feature &feature : features)
    patterns.emplace_back(feature.pattern);
  std::vector<int> found(features.size());
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    std::string text = comparisonOf(seed).partitionedText();
    EXPECT_FALSE(text.empty()) << seed;
    for (size_t i = 0; i < patterns.size(); ++i)
      found[i] += std::regex_search(text, patterns[i]);
  }
  for (size_t i = 0; i < patterns.size(); ++i)
    EXPECT_GE(found[i], features.begin()[i].least) << features.begin()[i].pattern;
}

std::pair<uint64_t, uint64_t> hyc::equivalence::chosenSeeds(const char *name, uint64_t count) {
  const char *text = std::getenv(name);
  unsigned long long first = 0, given = count;
  if (text && std::sscanf(text, "%llu:%llu", &first, &given) != 2) {
    std::fprintf(stderr, "%s is \"%s\", expected FIRST:COUNT\n", name, text);
    std::exit(64);
  }
  return {first, given};
}
