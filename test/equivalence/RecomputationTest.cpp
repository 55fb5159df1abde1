// What is computed again or offloaded has the same bits. Random graphs over random meshes, cut at random places, under
// random lifetimes, against the same partition with everything saved: over tensors at phase 4 and over arenas of bytes,
// where what a record no longer holds is poisoned, at phase 5. All in f32, so that a sum in another order would show. A
// quarter each is under ZeRO's stages, whose gathers of parameters are repeated too.
#include "RandomGraph.h"
#include "TrainedModule.h"
#include "dialects/Dist/Placement.h"
#include "hyc/Analysis/Layers.h"
#include "hyc/Analysis/OpSharding.h"
#include "hyc/Analysis/Repetition.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "hyc/Interpreter/RankInterpreter.h"
#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

using namespace hyc::equivalence;
using namespace hyc::interpreter;
using hyc::dist::AxisListAttr;
using hyc::dist::LifetimeAttr;
using hyc::dist::LifetimeKind;

namespace {

struct Mesh {
  int64_t tp, pp, dp;
};
constexpr Mesh kMeshes[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 1},
                            {2, 1, 2}, {1, 3, 1}, {2, 2, 2}, {3, 2, 1}};
constexpr int64_t kMicroBatches = 3;

std::string meshPass(const Mesh &mesh) {
  return "hyc-create-mesh{dp=" + std::to_string(mesh.dp) + " tp=" + std::to_string(mesh.tp) +
         " pp=" + std::to_string(mesh.pp) + "}";
}

/// How often each kind of decision was made and realised.
struct Tally {
  int64_t recomputed = 0, inParts = 0, offloaded = 0, againInBackward = 0, gathers = 0, flatAgain = 0;
  int64_t onHost = 0, back = 0, partsOnHost = 0, masksAgain = 0;
};

class Decider {
public:
  Decider(hyc::FuncOp func, uint64_t seed) : func(func), random(seed * 31 + 7) {}

  /// Cuts the forward ops at random, so that any number of values crosses a cut.
  void cut(int64_t stages) {
    std::vector<mlir::Operation *> ops;
    for (const hyc::Layer &layer : hyc::findLayers(func))
      ops.insert(ops.end(), layer.begin(), layer.end());
    if (static_cast<int64_t>(ops.size()) < stages)
      return;
    std::set<size_t> cuts;
    while (static_cast<int64_t>(cuts.size()) + 1 < stages)
      cuts.insert(1 + random() % (ops.size() - 1));
    mlir::Builder builder(func.getContext());
    for (size_t i = 0; i < ops.size(); ++i)
      ops[i]->setAttr(hyc::dist::kStage, builder.getI64IntegerAttr(std::distance(cuts.begin(), cuts.upper_bound(i))));
  }

  void chooseLifetimes(const Mesh &mesh, Tally &tally) {
    hyc::Repetition repetition(func);
    uint64_t often = 1 + random() % 4; // of four
    for (mlir::Operation &op : func.getBody().front()) {
      if (op.hasAttr("hyc.backward") || op.getNumResults() == 0 || hyc::isFree(&op) || !repetition.isExact(&op))
        continue;
      if (random() % 4 < often) {
        op.setAttr(hyc::dist::kLifetime, LifetimeAttr::get(func.getContext(), LifetimeKind::recompute));
        ++tally.recomputed;
        continue;
      }
      // Offloading is drawn by itself, so that parts are offloaded, too.
      LifetimeKind kind = random() % 3 == 0 ? LifetimeKind::offload : LifetimeKind::save;
      AxisListAttr over = AxisListAttr::get(func.getContext(), {});
      if (random() % 2) {
        const char *axis = mesh.tp > 1 && (mesh.dp == 1 || random() % 2) ? "tp" : "dp";
        if (mesh.tp * mesh.dp > 1 && isWholeOver(&op, axis)) {
          over = AxisListAttr::get(func.getContext(), mlir::StringAttr::get(func.getContext(), axis));
          ++tally.inParts;
        }
      }
      tally.offloaded += kind == LifetimeKind::offload;
      if (kind == LifetimeKind::offload || !over.empty())
        op.setAttr(hyc::dist::kLifetime, LifetimeAttr::get(func.getContext(), kind, over));
    }
  }

private:
  static bool isWholeOver(mlir::Operation *op, llvm::StringRef axis) {
    return llvm::none_of(op->getResults(), [&](mlir::Value result) {
      return hyc::recordedSharding(result).splits(mlir::StringAttr::get(op->getContext(), axis));
    });
  }

  hyc::FuncOp func;
  std::mt19937_64 random;
};

/// What one partition computes: every state after two steps, and the losses.
struct Outcome {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
};

class Recomputation {
public:
  /// `precision` are passes after differentiation, each with a comma.
  explicit Recomputation(uint64_t seed, const std::string &precision = "", bool drops = false)
      : seed(seed), train(std::string(drops ? "hyc-key-random-ops," : "") + "hyc-differentiate," + precision +
                          "hyc-attach-optimizer{optimizer=adamw clip-grad-norm=0.05},hyc-verify-train"),
        mesh(kMeshes[seed % std::size(kMeshes)]) {
    RandomGraphOptions options;
    options.drops = drops;
    options.samples = 2 * mesh.dp;
    options.headMultiple = mesh.tp;
    options.blocks = 3 + static_cast<int64_t>(seed % 6);
    options.widthFactor = zero() > 0 && mesh.dp > 1 ? 6 : 1; // so that tensors have several blocks
    graph = makeRandomGraph(seed, options);
  }

  void run(Tally &tally) {
    TrainedModule saved(graph.module, train), repeated(graph.module, train);
    ASSERT_TRUE(partition(saved, nullptr)) << where() << saved.diagnostics();
    ASSERT_TRUE(partition(repeated, &tally)) << where() << repeated.diagnostics();
    repeated.get().walk([&](mlir::Operation *op) { count(op, tally); });
    for (const std::string &parameter : graph.parameters)
      for (const std::string &symbol : {parameter, parameter + ".grad"})
        if (repeated.get().lookupSymbol(symbol)) // a frozen parameter has no gradient
          symbols.push_back(symbol);
    compare<MeshInterpreter>(saved, repeated, "phase 4");
    if (testing::Test::HasFailure())
      return;
    // The target may lack a kernel; PartitionTest holds what it then says.
    if (saved.enter(hyc::Phase::Rank, {})) {
      ASSERT_TRUE(repeated.enter(hyc::Phase::Rank, {})) << where() << repeated.diagnostics();
      compare<RankInterpreter>(saved, repeated, "phase 5");
    }
  }

private:
  int64_t zero() const { return static_cast<int64_t>(seed / std::size(kMeshes) % 4); }

  std::string where() const {
    return "seed " + std::to_string(seed) + ": tp " + std::to_string(mesh.tp) + ", pp " + std::to_string(mesh.pp) +
           ", dp " + std::to_string(mesh.dp) + ", ZeRO " + std::to_string(zero()) + "\n";
  }

  bool partition(TrainedModule &module, Tally *tally) {
    if (!module ||
        !module.transform(meshPass(mesh) + ",hyc-seed-shardings,hyc-propagate-shardings,hyc-shard-states{zero=" +
                          std::to_string(zero()) + " persistence-threshold=0 prefetch=1}"))
      return false;
    Decider decider(module.get().lookupSymbol<hyc::FuncOp>("microbatch"), seed);
    if (mesh.pp > 1)
      decider.cut(mesh.pp);
    if (tally)
      decider.chooseLifetimes(mesh, *tally);
    const char *schedule = seed % 2 ? "1f1b" : "gpipe";
    return module.transform(
        std::string("hyc-assign-stages,hyc-build-schedule{schedule=") + schedule +
        " micro-batches=" + std::to_string(kMicroBatches) +
        "},hyc-assign-lifetimes,hyc-record-policies{policies=stage3_max_live_parameters=6000,offload_prefetch=" +
        std::to_string(seed % 3) +
        "},hyc-verify-plan,hyc-partition,hyc-recompute-activations,"
        "hyc-offload-activations,hyc-cut-stages,hyc-reduce-gradients,hyc-distribute-update,hyc-prefetch-parameters,"
        "hyc-delay-waits,hyc-overlap-moves,hyc-verify-local,hyc-check-communication");
  }

  static void count(mlir::Operation *op, Tally &tally) {
    if (hyc::getId(op).ends_with(".again")) {
      ++tally.againInBackward;
      tally.masksAgain += llvm::isa<hyc::DropoutMaskOp>(op);
    }
    if (auto copy = llvm::dyn_cast<hyc::dist::CopyStartOp>(op)) {
      bool toHost = copy.getTo() == hyc::dist::kOnHost;
      ++(toHost ? tally.onHost : tally.back);
      tally.partsOnHost += toHost && llvm::isa_and_nonnull<hyc::dist::SliceOp>(copy.getOperand().getDefiningOp());
    }
    auto gather = llvm::dyn_cast<hyc::dist::AllGatherStartOp>(op);
    tally.flatAgain += gather && gather.getFlat() && op->hasAttr("hyc.backward");
    tally.gathers += gather && gather.getWhy() == "saved in parts over its ranks";
  }

  template <typename Ranks> Outcome execute(TrainedModule &module) {
    Outcome outcome;
    llvm::FailureOr<Ranks> ranks = Ranks::create(module.get());
    for (uint64_t step = 0; succeeded(ranks) && step < 2; ++step) {
      llvm::FailureOr<StepResult> result =
          ranks->runStep(makeRandomBatch(graph, seed * 10 + step, kMicroBatches), 0.01);
      if (failed(result))
        return {};
      outcome.losses.push_back(result->lossSum);
      outcome.losses.push_back(result->gradNorm);
    }
    for (const std::string &symbol : symbols)
      if (llvm::FailureOr<Tensor> value = ranks->gatherState(symbol); succeeded(value))
        outcome.states[symbol] = *value;
    return outcome;
  }

  template <typename Ranks> void compare(TrainedModule &saved, TrainedModule &repeated, const std::string &phase) {
    Outcome expected = execute<Ranks>(saved), actual = execute<Ranks>(repeated);
    ASSERT_EQ(actual.losses.size(), 4u) << where() << phase << "\n" << repeated.diagnostics();
    EXPECT_EQ(actual.losses, expected.losses) << where() << phase;
    ASSERT_EQ(actual.states.size(), symbols.size()) << where() << phase << "\n" << repeated.diagnostics();
    ASSERT_EQ(expected.states.size(), symbols.size()) << where() << phase << "\n" << saved.diagnostics();
    for (auto &[symbol, value] : expected.states)
      for (int64_t i = 0; i < value.getNumElements(); ++i)
        ASSERT_EQ(actual.states.at(symbol).getDouble(i), value.getDouble(i)) << where() << phase << ", " << symbol;
  }

  uint64_t seed;
  std::string train;
  Mesh mesh;
  RandomGraph graph;
  std::vector<std::string> symbols;
};
} // namespace

TEST(Recomputation, RandomLifetimesChangeNoBit) {
  Tally tally;
  for (uint64_t seed = 0; seed < 108 && !HasFailure(); ++seed)
    Recomputation(seed).run(tally);
  // What the seeds are meant to try does occur in them.
  EXPECT_GT(tally.recomputed, 1000);
  EXPECT_GT(tally.againInBackward, 500);
  EXPECT_GT(tally.inParts, 100);
  EXPECT_GT(tally.gathers, 20);
  EXPECT_GT(tally.flatAgain, 20);
  EXPECT_GT(tally.offloaded, 200);
  EXPECT_GT(tally.onHost, 100);
  EXPECT_EQ(tally.onHost, tally.back);
  EXPECT_GT(tally.partsOnHost, 10);
}

/// What was rounded is rounded alike when it is computed again, whatever it is fused with then.
TEST(Recomputation, RandomLifetimesChangeNoBitInSixteenBits) {
  Tally tally;
  for (uint64_t seed = 0; seed < 54 && !HasFailure(); ++seed)
    Recomputation(seed, seed % 2 ? "hyc-convert-precision{precision=fp16},hyc-scale-loss{initial-scale=64},"
                                 : "hyc-convert-precision{precision=bf16},")
        .run(tally);
  EXPECT_GT(tally.againInBackward, 200);
}

/// What is drawn at random is drawn alike when it is computed again.
TEST(Recomputation, RandomLifetimesChangeNoBitOfWhatIsDropped) {
  Tally tally;
  for (uint64_t seed = 0; seed < 27 && !HasFailure(); ++seed)
    Recomputation(seed, "", true).run(tally);
  EXPECT_GT(tally.masksAgain, 10);
}
