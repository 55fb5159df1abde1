// What the arenas of a rank take under ZeRO's stages, against the published formulas (Rajbhandari et al. 2020, with 4 +
// 4 + 8 bytes a parameter, since all is f32 here), and the window of gathered parameters.
#include "Gpt2Pipeline.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"

#include "llvm/ADT/DenseMap.h"

#include <gtest/gtest.h>
#include <map>

using namespace hyc;
using namespace hyc::pipelines;

namespace {

constexpr int64_t kRanks = 4;

struct Compiled {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  rank::ProgramOp program() { return *module->getOps<rank::ProgramOp>().begin(); }
  std::map<std::string, int64_t> arenas() {
    std::map<std::string, int64_t> bytes;
    for (auto arena : program().getOps<rank::ArenaOp>())
      bytes[arena.getSymName().str()] = arena.getBytes();
    return bytes;
  }
};

Plan optionsOf(int64_t stage, const std::string &reduction) {
  Plan options;
  options.logits = "logits";
  options.dp = kRanks;
  options.zero = stage;
  options.gradientReduction = reduction;
  options.persistenceThreshold = 0;
  return options;
}

Compiled compile(const Plan &options, Phase last = Phase::Rank) {
  Compiled compiled{makeContext(), {}};
  compiled.module = importTiny(*compiled.context, kRanks);
  EXPECT_TRUE(compiled.module && runPhases(*compiled.module, Phase::Model, last, options));
  return compiled;
}

Compiled compile(int64_t stage, const std::string &reduction, Phase last = Phase::Rank) {
  return compile(optionsOf(stage, reduction), last);
}

/// Bytes of all parameters, and of a rank's part of them where those that a flat shard makes smaller are flat.
struct Sizes {
  int64_t whole = 0, shard = 0;
};

Sizes sizesOfParameters(Compiled &&unsharded) {
  Sizes sizes;
  for (auto state : unsharded.program().getOps<rank::StateOp>()) {
    if (state.getRole() != "parameter")
      continue;
    int64_t elements = state.getBufferType().getNumElements();
    sizes.whole += rank::alignedBytes(4 * elements);
    sizes.shard += rank::alignedBytes(4 * std::min(elements, dist::flatShardSize(elements, kRanks)));
  }
  return sizes;
}

TEST(ZeroMemory, ArenasFollowThePublishedFormulas) {
  const Sizes sizes = sizesOfParameters(compile(0, "step"));
  auto none = compile(0, "step").arenas(), one = compile(1, "step").arenas(), two = compile(2, "micro_batch").arenas(),
       three = compile(3, "micro_batch").arenas();
  // 16 Ψ: parameter, gradient, m, v.
  EXPECT_EQ(none["parameters"], sizes.whole);
  EXPECT_EQ(none["gradients"], sizes.whole);
  EXPECT_EQ(none["optimizer"], 2 * sizes.whole);
  // 8 Ψ + 8 Ψ/N, and nothing beside it: the sum is made and the parameter joined where they lie.
  EXPECT_EQ(one["parameters"], sizes.whole);
  EXPECT_EQ(one["gradients"], sizes.whole);
  EXPECT_EQ(one["optimizer"], 2 * sizes.shard);
  EXPECT_LE(one["communication"], none["communication"] + 1024); // the exact sum of the norm
  EXPECT_EQ(one["activations"], none["activations"]);
  // 4 Ψ + 12 Ψ/N.
  EXPECT_EQ(two["parameters"], sizes.whole);
  EXPECT_EQ(two["gradients"], sizes.shard);
  EXPECT_EQ(two["optimizer"], 2 * sizes.shard);
  // 16 Ψ/N and the window.
  EXPECT_EQ(three["gradients"], sizes.shard);
  EXPECT_EQ(three["optimizer"], 2 * sizes.shard);
  EXPECT_GT(three["parameters"], sizes.shard);
  // A shard is a quarter but for the last blocks and what is too small to be cut: a few per cent of this tiny model.
  EXPECT_LT(static_cast<double>(sizes.shard) / static_cast<double>(sizes.whole), 1.08 / kRanks);
}

/// Most bytes of gathered parameters that are there at one moment of a function of phase 4, from a gather's start to
/// the last use of what it brings.
int64_t gatheredAtOnce(FuncOp func) {
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  for (mlir::Operation &op : func.getBody().front())
    positions.try_emplace(&op, positions.size());
  std::map<int64_t, int64_t> changes; // in the order of ops
  for (auto start : func.getBody().front().getOps<dist::AllGatherStartOp>()) {
    if (!start.getFlat())
      continue;
    auto wait = llvm::cast<dist::WaitOp>(*start.getPending().user_begin());
    int64_t last = positions[wait];
    for (mlir::Operation *user : wait->getUsers())
      last = std::max(last, positions[user]);
    int64_t bytes = 4 * start.getPending().getType().getTensor().getNumElements();
    changes[positions[start]] += bytes;
    changes[last + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  for (auto [at, change] : changes)
    most = std::max(most, live += change);
  return most;
}

TEST(ZeroMemory, GatheredParametersStayWithinTheWindow) {
  const Sizes sizes = sizesOfParameters(compile(0, "step"));
  Plan options = optionsOf(3, "micro_batch");
  int64_t largest = 0;
  Compiled plan = compile(options, Phase::Plan);
  for (auto param : plan.module->getOps<ParamOp>())
    largest = std::max(largest, 4 * param.getWholeType().getNumElements());
  auto windowOf = [&](const Plan &chosen) { return compile(chosen).arenas()["parameters"] - sizes.shard; };
  auto gatheredIn = [](Compiled &&local) {
    int64_t most = 0;
    for (auto func : local.module->getOps<FuncOp>())
      if (func.getSymName() == "forward.0" || func.getSymName() == "backward.0")
        most = std::max(most, gatheredAtOnce(func));
    return most;
  };
  // Right before its use each: no more than one matrix is there at a time, and what its bias or norm adds to it.
  EXPECT_GE(windowOf(options), largest);
  EXPECT_LE(windowOf(options), largest + largest / 4);
  EXPECT_LE(gatheredIn(compile(options, Phase::Local)), windowOf(options));
  // Asked for ahead, as much as the plan allows and no more.
  options.prefetch = 8;
  options.maxLiveParameters = 3 * largest / 4;
  EXPECT_GT(gatheredIn(compile(options, Phase::Local)), largest + largest / 4);
  EXPECT_LE(gatheredIn(compile(options, Phase::Local)), 3 * largest);
  EXPECT_LE(windowOf(options), 3 * largest);
}

/// Elements that one rank sends or receives in a step of one micro-batch, as the paper counts: a reduction or a gather
/// of n elements n, an all-reduce 2n.
TEST(ZeroMemory, CommunicationVolumeIsThePublishedOne) {
  const double parameters = static_cast<double>(sizesOfParameters(compile(0, "step")).whole) / 4;
  auto volume = [&](int64_t stage, const std::string &reduction) {
    Compiled compiled = compile(stage, reduction, Phase::Local);
    int64_t elements = 0;
    auto add = [&](mlir::Type whole, int64_t times) {
      auto tensor = llvm::cast<mlir::RankedTensorType>(whole);
      elements += tensor.getElementType().isF32() ? times * tensor.getNumElements() : 0;
    };
    compiled.module->walk([&](dist::AllReduceStartOp start) { add(start.getOperand().getType(), 2); });
    compiled.module->walk([&](dist::ReduceScatterStartOp start) { add(start.getOperand().getType(), 1); });
    compiled.module->walk([&](dist::AllGatherStartOp start) { add(start.getPending().getType().getTensor(), 1); });
    return static_cast<double>(elements) / parameters;
  };
  EXPECT_NEAR(volume(0, "step"), 2, 0.02);
  EXPECT_NEAR(volume(1, "step"), 2, 0.02);
  // The two contributions to a tied parameter are reduced as they are made.
  double tied = 257.0 * 64 / parameters;
  EXPECT_NEAR(volume(2, "micro_batch"), 2 + tied, 0.001);
  // Stage 2's two, of which one is the gather before each use in forward, and one more for those in backward. Tensors
  // of one block stay whole, and tied ones are used once more.
  EXPECT_NEAR(volume(3, "micro_batch"), 3 + 2 * tied, 0.05);
}

} // namespace
