// What phase 4 refuses before anything runs, against what happens when it runs: programs of random graphs over random
// layouts, one thing of their schedules or exchanges changed, executed by the interpreter all the same, and issued to
// one stream a rank as under NCCL. A program in which ranks wait for ever in either must be refused, always; one that
// goes wrong in another way nearly always; one that computes what it should, never. HYC_MUTANT_SEEDS runs other seeds.
#include "Comparison.h"
#include "ScheduleMutation.h"
#include "StreamOrder.h"
#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace hyc;
using namespace hyc::equivalence;

namespace {

/// Pipelines of all schedules; every other seed with virtual stages, half of them with ZeRO, many with tied weights.
Comparison comparisonOf(uint64_t seed) {
  std::mt19937_64 random(seed * 131 + 7);
  Comparison comparison(seed);
  Layout &layout = comparison.layout;
  static const int64_t kMeshes[][3] = {{1, 2, 1}, {1, 3, 1}, {1, 4, 1}, {2, 2, 1}, {1, 2, 2}, {2, 2, 2}, {1, 3, 2}};
  const int64_t *mesh = kMeshes[random() % std::size(kMeshes)];
  layout.tp = mesh[0], layout.pp = mesh[1], layout.dp = mesh[2];
  layout.microBatch = 1;
  layout.steps = 1;
  layout.optimizer = seed % 3 ? "optimizer=sgd" : "optimizer=sgd clip-grad-norm=0.05"; // a sum over further axes
  layout.microBatches = 1 + static_cast<int64_t>(random() % 4);
  layout.schedule = random() % 3 ? "1f1b" : "gpipe";
  if (seed % 2) {
    layout.schedule = "1f1b";
    layout.virtualStages = 2 + static_cast<int64_t>(random() % 2);
    layout.microBatches = layout.pp * (1 + static_cast<int64_t>(random() % 2));
  }
  comparison.options.samples = layout.microBatch * layout.dp;
  comparison.options.headMultiple = layout.tp;
  comparison.options.blocks = 4 + static_cast<int64_t>(seed % 3);
  comparison.options.tiedPercent = 50;
  if (layout.dp > 1 && random() % 2)
    comparison.zero = "zero=" + std::to_string(1 + random() % 3) + " persistence-threshold=0";
  return comparison;
}

} // namespace

static const std::pair<uint64_t, uint64_t> kSeeds = chosenSeeds("HYC_MUTANT_SEEDS", 100);

static constexpr uint64_t kMutants = 5; // of each program

/// Rules that a schedule keeps whether or not breaking them does harm: on a stage that has no loss to forget,
/// begin_step may come late.
static bool isRefusedForItsOrder(const std::string &refusal) {
  return llvm::any_of(
      std::initializer_list<const char *>{"is there a second time", "comes after", "comes before", "has no "},
      [&](const char *rule) { return refusal.find(rule) != std::string::npos; });
}

TEST(ScheduleMutants, ThatHangAreRefusedAndThoseThatAreSoundAreNot) {
  std::map<std::string, int> counts;
  int faults = 0, unseen = 0, onStreams = 0, otherAxes = 0;
  for (uint64_t seed = kSeeds.first; seed < kSeeds.first + kSeeds.second; ++seed) {
    std::vector<std::string> names(kMutants);
    std::vector<char> hangsUnderNccl(kMutants); // one each
    std::vector<std::function<void(mlir::ModuleOp)>> changes;
    for (uint64_t mutant = 0; mutant < kMutants; ++mutant)
      changes.push_back([&names, &hangsUnderNccl, seed, mutant](mlir::ModuleOp module) {
        if (mutant == 0)
          EXPECT_FALSE(hangsOnStreams(module)) << "seed " << seed;
        names[mutant] = mutate(module, seed * 1000 + mutant);
        hangsUnderNccl[mutant] = hangsOnStreams(module);
      });
    std::vector<MutantOutcome> outcomes = comparisonOf(seed).runChanged(changes);
    ASSERT_EQ(outcomes.size(), changes.size() + 1);
    EXPECT_EQ(outcomes[0].kind, MutantOutcome::Sound) << "seed " << seed << ": " << outcomes[0].failure;
    EXPECT_EQ(outcomes[0].refusal, "") << "seed " << seed;
    for (uint64_t mutant = 0; mutant < kMutants; ++mutant) {
      const MutantOutcome &outcome = outcomes[mutant + 1];
      bool isRefused = !outcome.refusal.empty(), isSound = outcome.kind == MutantOutcome::Sound;
      std::string told = "seed " + std::to_string(seed) + "." + std::to_string(mutant) + ": " + names[mutant] + "\n" +
                         outcome.refusal + outcome.failure;
      ++counts[outcome.kindName() + (isRefused ? ", refused" : ", accepted")];
      EXPECT_TRUE(isRefused || outcome.kind != MutantOutcome::Hangs) << told;
      EXPECT_TRUE(isRefused || !hangsUnderNccl[mutant]) << "on streams, " << told;
      onStreams += hangsUnderNccl[mutant];
      otherAxes += llvm::StringRef(names[mutant]).contains("other axes") && !isSound;
      EXPECT_TRUE(!isSound || !isRefused || isRefusedForItsOrder(outcome.refusal)) << told;
      faults += !isSound;
      unseen += !isSound && !isRefused;
      // What goes unseen is what ops compute: a sum that is left out.
      EXPECT_TRUE(isSound || isRefused || names[mutant].find("dropped all_reduce") == 0) << told;
    }
  }
  for (const auto &[kind, count] : counts) {
    std::printf("%6d %s\n", count, kind.c_str());
    RecordProperty(kind, count);
  }
  std::printf("%6d would hang where exchanges of a rank share a stream, %d go wrong over other axes\n", onStreams,
              otherAxes);
  EXPECT_LE(unseen * 20, faults) << "5 %";
  const int mutants = static_cast<int>(kSeeds.second * kMutants);
  EXPECT_GE(counts["hangs, refused"] * 20, mutants) << "the mutants are no test";
  EXPECT_GE(onStreams * 20, mutants) << "the mutants are no test of NCCL's order";
  EXPECT_GE(otherAxes * 200, mutants) << "the mutants are no test of groups over other axes";
}
