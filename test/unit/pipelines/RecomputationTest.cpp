// What recomputation saves, in bytes: the tiny GPT-2 (8 layers, width 64, sequence 64) through every phase. Formulas of
// Korthikanti et al. (2022) count 2 bytes a value; here every value is an f32, so that their 2sbh is 4sbh.
#include "Gpt2Pipeline.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Transforms/Rank/Passes.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>
#include <map>

using namespace hyc;
using namespace hyc::pipelines;

namespace {

constexpr int64_t kSequence = 64, kWidth = 64, kBatch = 2, kHeads = 8;
constexpr int64_t kBoundary = 4 * kSequence * kBatch * kWidth; // bytes of one value between layers

Plan optionsOf(int64_t tp, int64_t pp, int64_t microBatches) {
  Plan options;
  options.logits = "logits";
  options.tp = tp;
  options.pp = pp;
  options.gradAccum = microBatches;
  return options;
}

struct Compiled {
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
  mlir::OwningOpRef<mlir::ModuleOp> module = importTiny(*context, kBatch);

  explicit operator bool() const { return static_cast<bool>(module); }
  bool run(Phase first, Phase last, const Plan &options) { return module && runPhases(*module, first, last, options); }
  /// Has every attention written out in small ops.
  bool writeOutAttention() {
    mlir::PassManager passes(context.get());
    DecomposeCompositesOptions options;
    options.ops.push_back("attention");
    passes.addPass(createDecomposeComposites(options));
    return module && succeeded(passes.run(*module));
  }
};

int64_t bytesOf(mlir::Type type) {
  auto tensor = llvm::cast<mlir::RankedTensorType>(type);
  return tensor.getNumElements() * tensor.getElementTypeBitWidth() / 8;
}

/// Bytes by id of what @forward.`stage` saves.
std::map<std::string, int64_t> savedBy(mlir::ModuleOp module, int64_t stage) {
  std::map<std::string, int64_t> saved;
  auto forward = module.lookupSymbol<FuncOp>("forward." + std::to_string(stage));
  for (auto [index, type] : llvm::enumerate(forward.getResultTypes()))
    if (auto id = forward.getResultAttrOfType<mlir::StringAttr>(index, "hyc.saved"))
      saved[id.str()] = bytesOf(type);
  return saved;
}

int64_t total(const std::map<std::string, int64_t> &saved) {
  int64_t bytes = 0;
  for (auto &[id, size] : saved)
    bytes += size;
  return bytes;
}

rank::ArenaOp activations(mlir::ModuleOp module, int64_t stage) {
  for (auto program : module.getOps<rank::ProgramOp>())
    if (static_cast<int64_t>(program.getStage()) == stage)
      for (auto arena : program.getBody().front().getOps<rank::ArenaOp>())
        if (arena.getSymName() == "activations")
          return arena;
  return {};
}

/// How often each op of the forward function is executed again by backward.
int64_t countRepeated(mlir::ModuleOp module, int64_t stage, llvm::StringRef mnemonic) {
  int64_t count = 0;
  module.lookupSymbol<FuncOp>("backward." + std::to_string(stage)).walk([&](mlir::Operation *op) {
    count += op->getName().stripDialect() == mnemonic && getId(op).ends_with(".again");
  });
  return count;
}

} // namespace

TEST(Recompute, LayerModeSavesTheValuesBetweenLayersAndNothingElse) {
  for (int64_t tp : {1, 2}) {
    Plan options = optionsOf(tp, 2, 4);
    options.schedule = "gpipe"; // the last stage holds four micro-batches too, so that its head is computed again
    options.recompute = "layer";
    Compiled compiled;
    ASSERT_TRUE(compiled.run(Phase::Model, Phase::Local, options));
    // Each of the four layers of stage 0 finds its input: 2sbh a layer, at 4 bytes a value.
    std::map<std::string, int64_t> first{{"transformer.add", kBoundary}},
        second{{"transformer.h.3.add.2", kBoundary}, {"transformer.h.7.add.2", kBoundary}};
    for (int layer = 0; layer < 3; ++layer)
      first["transformer.h." + std::to_string(layer) + ".add.2"] = kBoundary;
    for (int layer = 4; layer < 7; ++layer)
      second["transformer.h." + std::to_string(layer) + ".add.2"] = kBoundary;
    EXPECT_EQ(savedBy(*compiled.module, 0), first) << "tp " << tp;
    EXPECT_EQ(savedBy(*compiled.module, 1), second) << "tp " << tp;
  }
}

TEST(Recompute, PartitionedActivationsAreATpThOfThem) {
  Plan options = optionsOf(2, 1, 4);
  options.schedule = "gpipe";
  options.recompute = "layer";
  options.partitionActivations = true;
  Compiled compiled;
  ASSERT_TRUE(compiled.run(Phase::Model, Phase::Local, options));
  std::map<std::string, int64_t> saved = savedBy(*compiled.module, 0);
  EXPECT_EQ(saved.size(), 9u);
  for (auto &[id, bytes] : saved)
    EXPECT_EQ(bytes, kBoundary / 2) << id;
}

TEST(Recompute, TheHeadIsLeftAloneWhereItsBackwardFollowsAtOnce) {
  Plan options = optionsOf(1, 2, 4);
  options.recompute = "layer"; // 1f1b: the last stage holds one micro-batch
  Compiled compiled;
  ASSERT_TRUE(compiled.run(Phase::Model, Phase::Local, options));
  EXPECT_EQ(countRepeated(*compiled.module, 1, "cross_entropy"), 0);
  EXPECT_EQ(countRepeated(*compiled.module, 1, "attention"), 4);
  EXPECT_EQ(countRepeated(*compiled.module, 0, "attention"), 4);
}

// A stage that holds k micro-batches has k records of exactly what its layers' inputs take, and works on one layer at a
// time: far less than the arena that keeps everything, whose records alone are larger. On one stage too, where nothing
// but the functions' border keeps clones and forward ops apart.
TEST(Recompute, ArenasShrinkToRecordsAndOneLayersWork) {
  for (int64_t pp : {1, 2}) {
    int64_t arenaBytes[2], recordBytes[2];
    for (bool layer : {false, true}) {
      Plan options = optionsOf(1, pp, 8);
      options.schedule = "gpipe";
      options.recompute = layer ? "layer" : "none";
      Compiled compiled;
      ASSERT_TRUE(compiled.run(Phase::Model, Phase::Rank, options));
      rank::ArenaOp arena = activations(*compiled.module, 0);
      arenaBytes[layer] = arena.getBytes();
      recordBytes[layer] = arena.getRecordBytes();
    }
    EXPECT_EQ(recordBytes[true], (pp == 1 ? 9 : 4) * kBoundary);
    EXPECT_GE(recordBytes[false], 8 * recordBytes[true]);
    EXPECT_GE(arenaBytes[false], 8 * recordBytes[false]);
    int64_t work = arenaBytes[true] - 8 * recordBytes[true], layers = 8 / pp;
    EXPECT_GT(work, 0);
    EXPECT_LE(work, 2 * recordBytes[false] / layers) << "about what one layer makes, and its cotangents";
  }
}

// Without 1f1b's bound every micro-batch has a record; with it, stage s of p has p - s.
TEST(Recompute, RecordsAreThoseOfTheMicroBatchesInFlight) {
  for (const char *schedule : {"gpipe", "1f1b"}) {
    Plan options = optionsOf(1, 4, 6);
    options.schedule = schedule;
    options.recompute = "layer";
    Compiled compiled;
    ASSERT_TRUE(compiled.run(Phase::Model, Phase::Rank, options));
    for (int64_t stage = 0; stage < 3; ++stage) {
      rank::ArenaOp arena = activations(*compiled.module, stage);
      int64_t inFlight = schedule == std::string("gpipe") ? 6 : 4 - stage;
      EXPECT_GE(arena.getBytes(), inFlight * arena.getRecordBytes()) << schedule << ", stage " << stage;
      EXPECT_EQ(arena->getParentOfType<rank::ProgramOp>().getSlots(), inFlight);
    }
  }
}

// Written-out attention keeps what it makes of its scores: the probabilities, from which softmax knows its gradient.
// Selective recomputation keeps none of that, and is the only thing that it does.
TEST(Recompute, SelectiveDropsTheSquaresOfWrittenOutAttention) {
  std::map<std::string, int64_t> saved[2];
  for (bool selective : {false, true}) {
    Plan options = optionsOf(1, 1, 2);
    options.recompute = selective ? "selective" : "none";
    Compiled compiled;
    ASSERT_TRUE(compiled.run(Phase::Model, Phase::Model, options) && compiled.writeOutAttention() &&
                compiled.run(Phase::Train, Phase::Local, options));
    saved[selective] = savedBy(*compiled.module, 0);
  }
  const int64_t square = 4 * kBatch * kHeads * kSequence * kSequence;
  int64_t squares = 0;
  for (auto &[id, bytes] : saved[false]) {
    bool isSquare = bytes >= square / 4; // masks are bytes
    squares += isSquare && llvm::StringRef(id).contains(".attention.");
    if (llvm::StringRef(id).contains(".attention.") && isSquare)
      EXPECT_FALSE(saved[true].count(id)) << id;
    else
      EXPECT_TRUE(saved[true].count(id) || llvm::StringRef(id).contains(".attention.")) << id;
  }
  EXPECT_GE(squares, 8);
  for (auto &[id, bytes] : saved[true])
    EXPECT_FALSE(bytes >= square / 4 && llvm::StringRef(id).contains(".attention.")) << id;
  EXPECT_LE(total(saved[true]), total(saved[false]) - 8 * square);
}

TEST(Recompute, SelectiveLeavesCompositeAttentionAlone) {
  std::map<std::string, int64_t> saved[2];
  for (bool selective : {false, true}) {
    Plan options = optionsOf(1, 1, 2);
    options.recompute = selective ? "selective" : "none";
    Compiled compiled;
    ASSERT_TRUE(compiled.run(Phase::Model, Phase::Local, options));
    saved[selective] = savedBy(*compiled.module, 0);
  }
  EXPECT_EQ(saved[false], saved[true]);
}

// Between saving layer boundaries only and saving everything, more budget never saves less nor repeats more, and the
// budget is kept for what the plan can know: the bytes of the values saved.
TEST(Recompute, AutoSavesWithinItsBudgetAndUsesIt) {
  auto compile = [](int64_t budget, int64_t &bytes, int64_t &repeatedProducts) {
    Plan options = optionsOf(1, 2, 4);
    options.recompute = "auto";
    options.activationBudgets = {budget};
    Compiled compiled;
    ASSERT_TRUE(compiled.run(Phase::Model, Phase::Local, options));
    bytes = total(savedBy(*compiled.module, 0)) * 2; // two micro-batches in flight
    repeatedProducts = countRepeated(*compiled.module, 0, "einsum") + countRepeated(*compiled.module, 0, "attention");
  };
  int64_t least = 0, most = 0, repeatedMost = 0, repeatedLeast = 0;
  compile(0, least, repeatedMost);
  compile(int64_t(1) << 40, most, repeatedLeast);
  EXPECT_EQ(least, 2 * 4 * kBoundary);
  EXPECT_EQ(repeatedLeast, 0);
  EXPECT_GT(repeatedMost, 8);
  int64_t before = repeatedMost;
  for (int eighth = 1; eighth < 8; ++eighth) {
    int64_t budget = least + (most - least) * eighth / 8, bytes = 0, repeated = 0;
    compile(budget, bytes, repeated);
    EXPECT_LE(bytes, budget);
    EXPECT_GE(bytes, budget - 2 * 4 * kBoundary * 4) << "less than the largest value of a layer is left";
    EXPECT_LE(repeated, before);
    before = repeated;
  }
}
