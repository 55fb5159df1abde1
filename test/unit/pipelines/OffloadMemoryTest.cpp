// What the arenas of a rank take where states are kept elsewhere: the device is smaller by exactly what was moved out,
// and the host or the file holds it, with buffers for what is on its way.
#include "Gpt2Pipeline.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/MemoryAccount.h"

#include <gtest/gtest.h>
#include <map>

using namespace hyc;
using namespace hyc::pipelines;

namespace {

constexpr int64_t kRanks = 4;
using Arenas = std::map<std::string, int64_t>;

Plan optionsOf(int64_t zero, const std::string &optimizer, const std::string &parameters) {
  Plan options;
  options.logits = "logits";
  options.dp = kRanks;
  options.zero = zero;
  options.gradientReduction = "micro_batch";
  options.persistenceThreshold = 0;
  options.offloadOptimizer = optimizer;
  options.offloadParam = parameters;
  options.subGroup = 1;
  return options;
}

struct Compiled {
  Arenas arenas;
  JobAccount account;
  int64_t optimizerBytes = 0, optimizerBlocks = 0; ///< of m and v of all parameters; in whole blocks each
  int64_t largest = 0;                             ///< bytes of the largest tensor of @optimizer
  int64_t largestWhole = 0;                        ///< bytes of the largest parameter before it was cut
};

Compiled compile(const Plan &options) {
  Compiled compiled;
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module = importTiny(*context, kRanks);
  EXPECT_TRUE(module && runPhases(*module, Phase::Model, Phase::Rank, options, &compiled.account));
  module->walk([&](rank::ArenaOp arena) { compiled.arenas[arena.getSymName().str()] += arena.getBytes(); });
  module->walk([&](rank::StateOp state) {
    int64_t bytes = state.getBufferType().getBytes();
    if (state.getRole() == "parameter") {
      int64_t whole = 4;
      for (int64_t size : state.getGlobal())
        whole *= size;
      compiled.largestWhole = std::max(compiled.largestWhole, whole);
    }
    if (!state.getRole().starts_with("adam."))
      return;
    compiled.optimizerBytes += rank::alignedBytes(bytes);
    compiled.optimizerBlocks += rank::wholeBlocks(bytes);
    compiled.largest = std::max(compiled.largest, rank::wholeBlocks(bytes));
  });
  return compiled;
}

void expectEqualBut(const Arenas &actual, const Arenas &expected, std::initializer_list<std::string> others) {
  for (const char *arena : {"parameters", "gradients", "optimizer", "activations", "communication"})
    if (std::find(others.begin(), others.end(), arena) == others.end())
      EXPECT_EQ(actual.count(arena) ? actual.at(arena) : 0, expected.at(arena)) << arena;
}

int64_t of(const Arenas &arenas, const std::string &arena) { return arenas.count(arena) ? arenas.at(arena) : 0; }

class OffloadMemory : public testing::TestWithParam<int64_t> {};

TEST_P(OffloadMemory, OptimizerStatesAreOnTheHost) {
  Compiled device = compile(optionsOf(GetParam(), "none", "none")),
           host = compile(optionsOf(GetParam(), "cpu", "none"));
  // 8 Ψ of 16 Ψ (ZeRO 0) leave the device, or 8 Ψ/N.
  EXPECT_EQ(device.arenas.at("optimizer"), device.optimizerBytes);
  EXPECT_EQ(host.arenas.count("optimizer"), 0u);
  expectEqualBut(host.arenas, device.arenas, {"optimizer"});
  // The host has them, and one gradient and one parameter at a time, after which it may begin a new line.
  int64_t staged = of(host.arenas, "host") - of(device.arenas, "host") - device.optimizerBytes;
  EXPECT_GT(staged, 0);
  EXPECT_LE(staged, 2 * host.largest + 64);
}

TEST_P(OffloadMemory, OptimizerStatesAreInAFile) {
  Compiled device = compile(optionsOf(GetParam(), "none", "none")),
           disk = compile(optionsOf(GetParam(), "nvme", "none"));
  EXPECT_EQ(disk.arenas.count("optimizer"), 0u);
  expectEqualBut(disk.arenas, device.arenas, {"optimizer"});
  EXPECT_EQ(disk.arenas.at("nvme"), disk.optimizerBlocks);
  // m and v of three updates, gradient and parameter of one.
  int64_t staged = of(disk.arenas, "host") - of(device.arenas, "host");
  EXPECT_GE(staged, 2 * disk.largest);
  EXPECT_LE(staged, 8 * disk.largest);
}

TEST_P(OffloadMemory, ParametersAreThereForTheirUsesAlone) {
  Compiled device = compile(optionsOf(GetParam(), "none", "none")),
           host = compile(optionsOf(GetParam(), "none", "cpu"));
  expectEqualBut(host.arenas, device.arenas, {"parameters"});
  // The embedding is a third of this model. ZeRO 3 gathers it from a copy of the shard.
  EXPECT_LE(host.arenas.at("parameters"), 2 * host.largestWhole);
  EXPECT_GE(host.arenas.at("parameters"), host.largestWhole);
  if (GetParam() < 3)
    EXPECT_LT(host.arenas.at("parameters"), device.arenas.at("parameters") / 2);
  EXPECT_GT(of(host.arenas, "host"), of(device.arenas, "host"));
}

/// One at a time is on the device.
TEST_P(OffloadMemory, GradientsAreOnTheHost) {
  Plan options = optionsOf(GetParam(), "cpu", "none");
  Compiled device = compile(options);
  options.offloadGradients = "cpu";
  Compiled host = compile(options);
  expectEqualBut(host.arenas, device.arenas, {"gradients", "optimizer"}); // that one is empty
  EXPECT_GT(of(host.arenas, "gradients"), 0);
  EXPECT_LE(of(host.arenas, "gradients"), 2 * host.largestWhole);
  EXPECT_LT(of(host.arenas, "gradients"), of(device.arenas, "gradients"));
  EXPECT_GT(of(host.arenas, "host"), of(device.arenas, "host"));
}

/// A use ahead is one use's tensors more, and no byte besides. The most that is there at once are a block's
/// feed-forward matrices, of 64 × 256: the first with its bias, which one product reads, then the second, then that
/// one's bias.
TEST(OffloadPrefetch, TakesWhatIsAheadOfItsUse) {
  auto parametersAt = [](int64_t distance) {
    Plan options = optionsOf(0, "none", "cpu");
    options.offloadPrefetch = distance;
    Compiled compiled = compile(options);
    for (const ArenaAccount &arena : compiled.account.stages.front().arenas)
      EXPECT_EQ(arena.bytes, of(compiled.arenas, arena.name)) << arena.name;
    return of(compiled.arenas, "parameters");
  };
  const int64_t matrix = 64 * 256 * 4, wide = 256 * 4, narrow = 64 * 4;
  EXPECT_EQ(parametersAt(0), matrix + wide);
  EXPECT_EQ(parametersAt(1), 2 * matrix + wide);
  int64_t two = parametersAt(2);
  EXPECT_GE(two, 2 * matrix + wide + narrow);
  EXPECT_LE(two, 2 * matrix + wide + 2 * narrow);
}

/// What a micro-batch in flight saves leaves the device but for what backward is at work on: the arena no longer grows
/// with the micro-batches in flight, while the host's does, by what each of them saves.
TEST(OffloadActivations, WhatIsInFlightIsOnTheHost) {
  auto withMicroBatches = [](int64_t count, const std::string &where, const std::string &recompute) {
    Plan options = optionsOf(0, "none", "none");
    options.schedule = "gpipe";
    options.pp = 1;
    options.gradAccum = count;
    options.recompute = recompute;
    options.offloadActivations = where;
    return compile(options);
  };
  for (const std::string recompute : {"none", "layer"}) {
    Compiled two = withMicroBatches(2, "none", recompute), four = withMicroBatches(4, "none", recompute);
    int64_t saved = (of(four.arenas, "activations") - of(two.arenas, "activations")) / 2; // by a micro-batch
    ASSERT_GT(saved, 0) << recompute;
    Compiled twoOut = withMicroBatches(2, "cpu", recompute), fourOut = withMicroBatches(4, "cpu", recompute);
    int64_t left = (of(fourOut.arenas, "activations") - of(twoOut.arenas, "activations")) / 2;
    int64_t moved = (of(fourOut.arenas, "host") - of(twoOut.arenas, "host")) / 2;
    EXPECT_LT(left, saved / 10) << recompute;
    EXPECT_GE(left + moved, saved) << recompute;
    EXPECT_LE(moved, saved + saved / 10) << recompute;
    EXPECT_LT(of(fourOut.arenas, "activations"), of(four.arenas, "activations") - 3 * (saved - left)) << recompute;
  }
}

/// The account has what the program has, and says which states lie where.
TEST_P(OffloadMemory, IsAccountedFor) {
  Compiled both = compile(optionsOf(GetParam(), "nvme", "cpu"));
  ASSERT_EQ(both.account.stages.size(), 1u);
  std::map<std::string, int64_t> counted;
  for (const ArenaAccount &arena : both.account.stages.front().arenas) {
    counted[arena.name] = arena.bytes;
    int64_t moments = 0, parameters = 0;
    for (const AccountedTensor &tensor : arena.tensors) {
      moments += tensor.kind == TensorKind::State && tensor.name.find(".adam.") != std::string::npos;
      parameters += tensor.kind == TensorKind::State && tensor.name == "transformer.h.0.mlp.c_fc.weight";
    }
    EXPECT_EQ(moments > 0, arena.name == "nvme") << arena.name;
    EXPECT_EQ(parameters, arena.name == "host" ? 1 : 0) << arena.name;
  }
  EXPECT_EQ(counted, both.arenas);
}

INSTANTIATE_TEST_SUITE_P(ZeroStages, OffloadMemory, testing::Values(0, 1, 2, 3));

} // namespace
