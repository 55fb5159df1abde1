// Where states are kept changes no bit: random graphs over random meshes, under ZeRO's stages and recomputation or
// without, with states on the device, on the host and on a disk, executed by all ranks in the program's own types, over
// tensors at phase 4 and over bytes at phase 5. HYC_OFFLOAD_SEEDS runs other seeds than these.
#include "Comparison.h"

#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/Layers.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "hyc/Interpreter/RankInterpreter.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <regex>
#include <set>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {

/// Everything that a run of some steps leaves behind.
struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, Tensor> states;
};

struct Placement {
  std::string optimizer, parameters, gradients = "none";
  int64_t subGroup = 1, maxInHost = 0;
  double ratio = 1;
  bool overlaps = true;
  int64_t prefetch = 0, window = 0;

  std::string describe() const {
    return "optimizer on " + optimizer + " (ratio " + std::to_string(ratio) + "), parameters on " + parameters + " (" +
           std::to_string(maxInHost) + " in host), gradients on " + gradients + ", groups of " +
           std::to_string(subGroup) + (overlaps ? "" : ", one after the other") + ", " + std::to_string(prefetch) +
           " uses ahead, windows of " + std::to_string(window);
  }
};

class Job {
public:
  explicit Job(uint64_t seed, const std::string &target = "cpu") : seed(seed), random(seed * 31 + 7), layout(seed) {
    options.target = target;
    chooseOptions();
    RandomGraphOptions size;
    size.samples = layout.microBatch * layout.dp;
    size.headMultiple = layout.tp;
    size.blocks = 3 + static_cast<int64_t>(seed % 4);
    size.widthFactor = options.zero > 0 ? 6 : 1; // so that tensors have several blocks
    graph = makeRandomGraph(seed, size);
  }

  Placement choosePlacement() {
    static const char *kPlaces[] = {"none", "cpu", "nvme"};
    static const int64_t kGroups[] = {1, 60, 5000};
    Placement placement;
    uint64_t both = 1 + random() % 8; // anything but none for both
    placement.optimizer = kPlaces[both % 3];
    placement.parameters = kPlaces[both / 3];
    placement.gradients = random() % 2 ? "cpu" : "none";
    placement.subGroup = kGroups[random() % 3];
    placement.ratio = random() % 3 == 0 ? 0.5 : 1;
    placement.maxInHost = random() % 3 == 0 ? 100 : 0;
    placement.overlaps = random() % 4 != 0;
    placement.prefetch = static_cast<int64_t>(random() % 4);
    static const int64_t kWindows[] = {1, 20000, 100000, 0};
    placement.window = kWindows[random() % 4];
    return placement;
  }

  /// A module of phase 4.
  std::unique_ptr<TrainedModule> build(const Placement &placement) {
    auto module = std::make_unique<TrainedModule>(graph.module, std::string("hyc-differentiate,") + precision() +
                                                                    "hyc-attach-optimizer{" + layout.optimizer +
                                                                    "},hyc-verify-train");
    if (*module) {
      auto microbatch = module->get().lookupSymbol<hyc::FuncOp>("microbatch");
      options.pp = std::min(layout.pp, static_cast<int64_t>(hyc::findLayers(microbatch).size()));
    }
    options.offloadOptimizer = placement.optimizer;
    options.offloadParam = placement.parameters;
    options.offloadGradients = placement.gradients;
    options.subGroup = placement.subGroup;
    options.offloadRatio = placement.ratio;
    options.maxInHost = placement.maxInHost;
    options.readAhead = options.writeBehind = placement.overlaps;
    options.offloadPrefetch = placement.prefetch;
    options.offloadWindow = placement.window;
    bool built = *module && module->enter(hyc::Phase::Plan, options) && module->enter(hyc::Phase::Local, options);
    EXPECT_TRUE(built) << where() << ", " << placement.describe() << "\n" << module->diagnostics() << graph.module;
    return built ? std::move(module) : nullptr;
  }

  int64_t stages() const { return *options.pp; }
  bool lower(TrainedModule &module) { return module.enter(hyc::Phase::Rank, options); }

  template <typename Ranks> Outcome run(TrainedModule &module) const {
    Outcome outcome;
    llvm::FailureOr<Ranks> all = Ranks::create(module.get(), {});
    EXPECT_TRUE(succeeded(all)) << where() << "\n" << module.diagnostics();
    for (int64_t step = 0; succeeded(all) && step < 2; ++step) {
      NamedTensors batch = makeRandomBatch(graph, seed * 10 + static_cast<uint64_t>(step), layout.microBatches);
      llvm::FailureOr<StepResult> result = all->runStep(batch, 0.01);
      EXPECT_TRUE(succeeded(result)) << where() << "\n" << module.diagnostics();
      if (failed(result))
        return outcome;
      outcome.losses.push_back(result->lossSum);
      outcome.norms.push_back(result->gradNorm);
    }
    for (const std::string &symbol : statesOf(module)) {
      llvm::FailureOr<Tensor> state = all->gatherState(symbol);
      EXPECT_TRUE(succeeded(state)) << symbol << ", " << where() << "\n" << module.diagnostics();
      if (succeeded(state))
        outcome.states[symbol] = *state;
    }
    return outcome;
  }

  std::string where() const {
    return "seed " + std::to_string(seed) + ": " + layout.describe() + ", ZeRO " + std::to_string(options.zero) + " " +
           *options.gradientReduction + ", prefetch " + std::to_string(options.prefetch) + ", recompute " +
           options.recompute->str() + ", " + (*precision() ? precision() : "f32");
  }

  hyc::Plan options;

private:
  /// Of every third job f32, of the others 16 bits, whose masters and copies are kept in places of their own.
  const char *precision() const {
    static const char *kPasses[] = {"", "hyc-convert-precision{precision=bf16},",
                                    "hyc-convert-precision{precision=fp16},hyc-scale-loss{initial-scale=64},"};
    return kPasses[seed / 5 % 3]; // apart from the optimizer, which seed % 5 chooses
  }

  void chooseOptions() {
    static const char *kOptimizers[] = {"optimizer=sgd momentum=0.9", "optimizer=adamw clip-grad-norm=0.05",
                                        "optimizer=lamb weight-decay=0.1", "optimizer=lion weight-decay=0.1",
                                        "optimizer=adam weight-decay=0.1"};
    layout.optimizer = kOptimizers[seed % std::size(kOptimizers)];
    static const int64_t kMeshes[][3] = {{1, 1, 1}, {1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {1, 1, 3}, {2, 2, 2}, {2, 2, 1}};
    const int64_t *mesh = kMeshes[random() % std::size(kMeshes)];
    layout.tp = options.tp = mesh[0], layout.pp = mesh[1], layout.dp = options.dp = mesh[2];
    layout.microBatch = 1;
    options.gradAccum = layout.microBatches;
    options.schedule = layout.schedule;
    static const char *kReductions[] = {"auto", "step", "micro_batch"};
    if (layout.dp > 1)
      options.zero = static_cast<int64_t>(random() % 4);
    options.gradientReduction = kReductions[random() % 3];
    options.persistenceThreshold = random() % 2 ? 0 : 3000;
    options.prefetch = random() % 2 ? 0 : 2;
    options.recompute = random() % 3 == 0 ? "layer" : "none";
  }

  /// What the ranks keep of parameters.
  static std::set<std::string> statesOf(TrainedModule &module) {
    std::set<std::string> symbols;
    module.get().walk([&](mlir::Operation *op) {
      auto state = llvm::dyn_cast<hyc::StateOp>(op);
      if (llvm::isa<hyc::ParamOp>(op) || (state && state.getParam()) || llvm::isa<hyc::rank::StateOp>(op))
        symbols.insert(mlir::SymbolTable::getSymbolName(op).str());
    });
    return symbols;
  }

  uint64_t seed;
  std::mt19937_64 random;
  Layout layout;
  RandomGraph graph;
};

void expectSame(const Outcome &actual, const Outcome &expected, const std::string &where) {
  EXPECT_EQ(actual.losses, expected.losses) << where;
  EXPECT_EQ(actual.norms, expected.norms) << where;
  EXPECT_EQ(actual.states.size(), expected.states.size()) << where;
  for (const auto &[symbol, value] : expected.states) {
    auto found = actual.states.find(symbol);
    ASSERT_NE(found, actual.states.end()) << symbol << ", " << where;
    EXPECT_TRUE(found->second.isIdenticalTo(value)) << symbol << ", " << where;
  }
}

/// Bytes of each arena of all programs.
std::map<std::string, int64_t> arenaBytes(TrainedModule &module) {
  std::map<std::string, int64_t> bytes;
  module.get().walk(
      [&](hyc::rank::ArenaOp arena) { bytes[arena.getSymName().str()] += static_cast<int64_t>(arena.getBytes()); });
  return bytes;
}

const std::pair<uint64_t, uint64_t> kSeeds = chosenSeeds("HYC_OFFLOAD_SEEDS", 48);
constexpr uint64_t kGpuSeeds = 20;

class OffloadedStates : public testing::TestWithParam<uint64_t> {};
class OffloadedStatesOfGpus : public testing::TestWithParam<uint64_t> {};

void expectBitsOfTheDevice(Job job) {
  std::unique_ptr<TrainedModule> device = job.build({"none", "none", "none"});
  ASSERT_TRUE(device);
  const Outcome expected = job.run<MeshInterpreter>(*device);
  ASSERT_FALSE(expected.states.empty());
  bool lowers = job.lower(*device);
  const Outcome lowered = lowers ? job.run<RankInterpreter>(*device) : Outcome();
  for (int i = 0; i < 3 && !testing::Test::HasFailure(); ++i) {
    Placement placement = job.choosePlacement();
    std::string where = placement.describe() + ", " + job.where();
    std::unique_ptr<TrainedModule> moved = job.build(placement);
    ASSERT_TRUE(moved) << where;
    expectSame(job.run<MeshInterpreter>(*moved), expected, where + ", phase 4");
    if (!lowers)
      continue;
    ASSERT_TRUE(job.lower(*moved)) << where << "\n" << moved->diagnostics();
    expectSame(job.run<RankInterpreter>(*moved), lowered, where + ", phase 5");
  }
}

} // namespace

TEST_P(OffloadedStates, HaveTheBitsOfStatesOnTheDevice) { expectBitsOfTheDevice(Job(GetParam())); }

/// In windows, and where kernels reach over the bus.
TEST_P(OffloadedStatesOfGpus, HaveTheBitsOfStatesOnTheDevice) { expectBitsOfTheDevice(Job(GetParam(), "cuda")); }

INSTANTIATE_TEST_SUITE_P(RandomGraphs, OffloadedStates, testing::Range(kSeeds.first, kSeeds.first + kSeeds.second));
INSTANTIATE_TEST_SUITE_P(RandomGraphs, OffloadedStatesOfGpus,
                         testing::Range(kSeeds.first, kSeeds.first + std::min(kGpuSeeds, kSeeds.second)));

/// What the seeds are meant to try does occur in them.
TEST(OffloadedStates, CoverEveryKindOfMove) {
  struct Feature {
    const char *pattern;
    int least, found;
  } features[] = {{R"(dist\.fetch_start .*to "host" flat)", 5, 0},
                  {R"(dist\.evict_start .*from "host" flat)", 5, 0},
                  {R"(dist\.evict_start .*from "device")", 3, 0},
                  {R"(dist\.fetch_start .*to "device")", 20, 0},
                  {R"(dist\.evict_start @\S*\.grad from "device")", 20, 0},
                  {R"(hyc\.param .*dist\.placement = "host".*flat \{dp\})", 3, 0},
                  {R"(hyc\.param .*dist\.placement = "nvme".*flat \{dp\})", 3, 0},
                  {R"(hyc\.state .*dist\.placement = "nvme".*\{tp\})", 3, 0}};
  for (uint64_t seed = 0; seed < 48; ++seed) {
    Job job(seed);
    for (int i = 0; i < 3; ++i) {
      std::unique_ptr<TrainedModule> moved = job.build(job.choosePlacement());
      ASSERT_TRUE(moved);
      std::string text = moved->print();
      for (Feature &feature : features)
        feature.found += std::regex_search(text, std::regex(feature.pattern));
    }
  }
  for (const Feature &feature : features)
    EXPECT_GE(feature.found, feature.least) << feature.pattern;
}

/// Windows on the device, and tensors that pass through several of them.
TEST(OffloadedStatesOfGpus, PassThroughWindows) {
  int streaming = 0, cut = 0;
  for (uint64_t seed = 0; seed < kGpuSeeds; ++seed) {
    Job job(seed, "cuda");
    for (int i = 0; i < 3; ++i) {
      Placement placement = job.choosePlacement();
      std::unique_ptr<TrainedModule> moved = job.build(placement);
      if (!moved || !job.lower(*moved))
        continue;
      std::map<std::string, int> fetches; // by function and state
      moved->get().walk([&](hyc::rank::MoveOp move) {
        auto func = move->getParentOfType<hyc::rank::FuncOp>();
        auto id = move->getAttrOfType<mlir::StringAttr>("id");
        if (id && move.getKind() == "fetch" && hyc::rank::arenaOf(move.getSource()) == "host" &&
            hyc::rank::arenaOf(move.getDestination()) == "activations" && func.getSymName().starts_with("apply"))
          ++fetches[(func.getSymName() + " " + id.getValue()).str()];
      });
      EXPECT_TRUE(placement.window > 0 || fetches.empty()) << placement.describe() << ", " << job.where();
      streaming += !fetches.empty();
      cut += llvm::any_of(fetches, [](const auto &entry) { return entry.second > 1; });
    }
  }
  EXPECT_GE(streaming, 15);
  EXPECT_GE(cut, 5);
}

/// They take the place of activations, three at a time: a rank has no more memory than with its states on the device.
TEST(OffloadedOptimizerOfGpus, TakesTheMemoryOfActivations) {
  int compared = 0;
  for (uint64_t seed = 0; seed < kGpuSeeds; ++seed) {
    Job job(seed, "cuda");
    if (job.options.zero > 0) // shards are not cut
      continue;
    std::unique_ptr<TrainedModule> device = job.build({"none", "none", "none"});
    if (!device || !job.lower(*device))
      continue;
    std::map<std::string, int64_t> before = arenaBytes(*device);
    for (int64_t window : {0, 20000, 100000}) {
      Placement placement{"cpu", "none", "none"};
      placement.window = window;
      std::unique_ptr<TrainedModule> moved = job.build(placement);
      ASSERT_TRUE(moved && job.lower(*moved)) << job.where();
      std::map<std::string, int64_t> after = arenaBytes(*moved);
      EXPECT_EQ(after.count("optimizer"), 0u) << job.where();
      for (const char *arena : {"parameters", "gradients", "communication", "workspace"})
        EXPECT_EQ(after[arena], before[arena]) << arena << ", " << job.where();
      EXPECT_LE(after["activations"], std::max(before["activations"], 3 * window * job.stages())) << job.where();
      EXPECT_GT(after["host"], before["host"]) << job.where();
      ++compared;
    }
  }
  EXPECT_GE(compared, 12);
}

/// What is moved out is gone from the device, to the byte, and nothing else there grows.
TEST(OffloadedOptimizer, LeavesItsArena) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Job job(seed);
    std::unique_ptr<TrainedModule> device = job.build({"none", "none", "none"});
    if (!device || !job.lower(*device))
      continue;
    std::map<std::string, int64_t> before = arenaBytes(*device);
    for (const char *place : {"cpu", "nvme"}) {
      std::unique_ptr<TrainedModule> moved = job.build({place, "none", "none"});
      ASSERT_TRUE(moved && job.lower(*moved)) << job.where();
      std::map<std::string, int64_t> after = arenaBytes(*moved);
      EXPECT_EQ(after.count("optimizer"), 0u) << job.where();
      for (const char *arena : {"parameters", "gradients", "activations", "communication"})
        EXPECT_EQ(after[arena], before[arena]) << arena << ", " << job.where();
      std::string where = place == std::string("cpu") ? "host" : "nvme";
      EXPECT_GE(after[where] - before[where], before["optimizer"]) << job.where();
      ++compared;
    }
  }
  EXPECT_GE(compared, 8);
}
