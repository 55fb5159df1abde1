// What is kept for the run changes no bit, and takes the memory that it is said to: layers with tables of positions,
// and random graphs with interpolation and gathers, over meshes and ZeRO's stages, executed by all ranks in the
// program's own types, with tables that are made once and with tables that every function makes for itself.
#include "Comparison.h"
#include "GraphText.h"

#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/ArenaPlacement.h"
#include "hyc/Analysis/Layers.h"
#include "hyc/Interpreter/RankInterpreter.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {

constexpr uint64_t kSeeds = 40;

/// Layers that turn what they are given by tables of all positions, the same in each.
RandomGraph positionedGraph(int64_t samples) {
  const int64_t sequence = 5, width = 6, vocabulary = 11;
  GraphText text;
  RandomGraph graph;
  auto weight = [&](const std::string &name, const Shape &shape) {
    graph.parameters.push_back(text.getScope() + name);
    return text.read(text.parameter(name, shape, 0, 0.6, false), shape);
  };
  GraphValue ids = text.argument("ids", {samples, sequence}, "i64");
  graph.inputs = {{"ids", ids.shape, vocabulary}, {"labels", ids.shape, vocabulary, true}};
  text.setScope("embed.");
  GraphValue x =
      text.apply("hyc.embedding", "$0, $1", {ids, weight("table", {vocabulary, width})}, {samples, sequence, width});
  std::vector<GraphValue> tables = text.applyMany("hyc.rotary_table", "[1.0, 0.5, 0.3, 0.2, 0.1, 0.05] factor 1.0", {},
                                                  {{"", {sequence, width}}, {"", {sequence, width}}});
  for (int64_t i = 0; i < 3; ++i) {
    text.setScope("layers." + std::to_string(i) + ".");
    GraphValue turned = text.einsum("bsk,kn->bsn", x, weight("turn", {width, width}));
    GraphValue kept = text.same("hyc.mul", {x, text.broadcast(tables[0], "[1, 2]", x.shape)});
    x = text.same("hyc.add", {kept, text.same("hyc.mul", {turned, text.broadcast(tables[1], "[1, 2]", x.shape)})});
  }
  text.setScope("head.");
  GraphValue labels = text.argument("labels", {samples, sequence}, "i64");
  GraphValue logits = text.einsum("bsk,kv->bsv", x, weight("weight", {width, vocabulary}));
  std::vector<GraphValue> results =
      text.applyMany("hyc.cross_entropy", "$0, $1", {logits, labels}, {{"", {}}, {"", {}, "i64"}, {"", labels.shape}});
  graph.module = text.finish({results[0], results[1]});
  return graph;
}

/// A program of phase 5, and what two steps of it come to.
struct Outcome {
  std::unique_ptr<TrainedModule> module;
  std::vector<double> losses, norms;
  std::map<std::string, Tensor> states;
  int64_t constants = 0, written = 0; ///< kept tensors, and calls of a step's functions that write a table
  std::map<std::string, int64_t> arenas, placed;
};

class Job {
public:
  Job(uint64_t seed, const std::string &target) : seed(seed), layout(seed) {
    std::mt19937_64 random(seed * 29 + 3);
    static const int64_t kMeshes[][3] = {{1, 1, 1}, {1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {2, 2, 1}, {1, 3, 1}};
    const int64_t *mesh = kMeshes[seed / 2 % std::size(kMeshes)];
    layout.tp = options.tp = mesh[0], layout.pp = mesh[1], layout.dp = options.dp = mesh[2];
    options.target = target;
    options.gradAccum = layout.microBatches;
    options.schedule = layout.schedule;
    options.persistenceThreshold = 0;
    options.zero = layout.dp > 1 ? static_cast<int64_t>(random() % 4) : 0;
    options.recompute = random() % 3 == 0 ? "layer" : "none";
    RandomGraphOptions size;
    size.samples = layout.microBatch * layout.dp;
    size.headMultiple = layout.tp;
    size.blocks = 3 + static_cast<int64_t>(seed % 4);
    size.widthFactor = options.zero > 0 ? 6 : 1;
    size.slides = true;
    graph = seed % 2 ? makeRandomGraph(seed, size) : positionedGraph(size.samples);
  }

  Outcome run(bool keeps) {
    Outcome outcome;
    options.keepConstants = keeps;
    outcome.module = std::make_unique<TrainedModule>(graph.module, "hyc-differentiate,hyc-attach-optimizer{" +
                                                                       layout.optimizer + "},hyc-verify-train");
    TrainedModule &module = *outcome.module;
    if (module)
      options.pp =
          std::min(layout.pp,
                   static_cast<int64_t>(hyc::findLayers(module.get().lookupSymbol<hyc::FuncOp>("microbatch")).size()));
    bool built = module && module.enter(hyc::Phase::Plan, options) && module.enter(hyc::Phase::Local, options) &&
                 module.enter(hyc::Phase::Rank, options);
    EXPECT_TRUE(built) << where() << "\n" << module.diagnostics();
    if (!built)
      return outcome;
    count(outcome);
    execute(outcome);
    return outcome;
  }

  std::string where() const {
    return "seed " + std::to_string(seed) + ": " + layout.describe() + ", ZeRO " + std::to_string(options.zero) +
           ", recompute " + options.recompute->str();
  }

private:
  static void count(Outcome &outcome) {
    outcome.module->get().walk([&](mlir::Operation *op) {
      if (auto arena = llvm::dyn_cast<hyc::rank::ArenaOp>(op))
        outcome.arenas[arena.getSymName().str()] += static_cast<int64_t>(arena.getBytes());
      if (auto constant = llvm::dyn_cast<hyc::rank::ConstantOp>(op)) {
        ++outcome.constants;
        auto program = constant->getParentOfType<hyc::rank::ProgramOp>();
        int64_t &end = outcome.placed[program.getSymName().str()], bytes = constant.getBufferType().getBytes();
        end = static_cast<int64_t>(llvm::alignTo(end, hyc::placementAlignment(bytes))) + bytes;
      }
      auto call = llvm::dyn_cast<hyc::rank::CallOp>(op);
      if (call && (call.getKernel() == "constant" || call.getKernel() == "rotary_table") &&
          call->getParentOfType<hyc::rank::FuncOp>().getSymName() != hyc::rank::kPrepare)
        ++outcome.written;
    });
  }

  void execute(Outcome &outcome) const {
    llvm::FailureOr<RankInterpreter> ranks = RankInterpreter::create(outcome.module->get(), {});
    ASSERT_TRUE(succeeded(ranks)) << where() << "\n" << outcome.module->diagnostics();
    for (uint64_t step = 0; step < 2; ++step) {
      llvm::FailureOr<StepResult> result =
          ranks->runStep(makeRandomBatch(graph, seed * 10 + step, layout.microBatches), 0.01);
      ASSERT_TRUE(succeeded(result)) << where() << "\n" << outcome.module->diagnostics();
      outcome.losses.push_back(result->lossSum);
      outcome.norms.push_back(result->gradNorm);
    }
    outcome.module->get().walk([&](hyc::rank::StateOp state) {
      llvm::FailureOr<Tensor> value = ranks->gatherState(state.getSymName());
      EXPECT_TRUE(succeeded(value)) << where() << "\n" << outcome.module->diagnostics();
      if (succeeded(value))
        outcome.states[state.getSymName().str()] = *value;
    });
  }

  uint64_t seed;
  Layout layout;
  hyc::Plan options;
  RandomGraph graph;
};

void expectSameBits(Job job) {
  Outcome kept = job.run(true), written = job.run(false);
  EXPECT_EQ(kept.losses, written.losses) << job.where();
  EXPECT_EQ(kept.norms, written.norms) << job.where();
  ASSERT_EQ(kept.states.size(), written.states.size()) << job.where();
  for (const auto &[symbol, value] : written.states)
    EXPECT_TRUE(kept.states.at(symbol).isIdenticalTo(value)) << symbol << ", " << job.where();
  // The arena has what is kept, and nothing else; without it, there is none.
  int64_t bytes = 0;
  for (const auto &[program, end] : kept.placed)
    bytes += end;
  EXPECT_EQ(kept.arenas["constants"], bytes) << job.where();
  EXPECT_EQ(written.constants, 0) << job.where();
  EXPECT_EQ(written.arenas.count("constants"), 0u) << job.where();
}

class KeptConstants : public testing::TestWithParam<uint64_t> {};

TEST_P(KeptConstants, GiveTheBitsOfThoseThatEveryFunctionMakes) { expectSameBits(Job(GetParam(), "cpu")); }
TEST_P(KeptConstants, GiveThemOnGpus) { expectSameBits(Job(GetParam(), "cuda")); }

INSTANTIATE_TEST_SUITE_P(RandomGraphs, KeptConstants, testing::Range<uint64_t>(0, kSeeds));

/// The graphs are such that something is kept in many of them, and then no function of a step writes what is large.
TEST(KeptConstants, AreThereInManyGraphs) {
  int keeping = 0, relieved = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Job job(seed, "cpu");
    Outcome kept = job.run(true), written = job.run(false);
    keeping += kept.constants > 0;
    relieved += kept.written < written.written;
    EXPECT_LE(kept.written, written.written) << job.where();
  }
  EXPECT_GE(keeping, 10);
  EXPECT_GE(relieved, 5);
}

} // namespace
