// What phase 4 refuses before anything runs, against what happens when it runs: programs of random graphs over random
// layouts, one thing of their schedules or exchanges changed, executed by the interpreter all the same. A program in
// which ranks wait for ever must be refused, always; one that goes wrong in another way nearly always; one that
// computes what it should, never. HYC_MUTANT_SEEDS runs other seeds than these.
#include "Comparison.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
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
  layout.optimizer = "optimizer=sgd";
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

/// Changes one thing of a partitioned program. Each gives what it did, or nothing where there is nothing to change.
class Mutation {
public:
  Mutation(mlir::ModuleOp module, uint64_t seed) : module(module), builder(module.getContext()), random(seed) {}

  std::string apply() {
    using Kind = std::string (Mutation::*)();
    static const Kind kKinds[] = {&Mutation::swapNeighbours,    &Mutation::moveInstruction,  &Mutation::dropInstruction,
                                  &Mutation::repeatInstruction, &Mutation::changeMicroBatch, &Mutation::changeSlot,
                                  &Mutation::dropTransfer,      &Mutation::swapTransfers,    &Mutation::splitExchange,
                                  &Mutation::joinExchanges,     &Mutation::turnTransfer,     &Mutation::changeChunk,
                                  &Mutation::swapExchangeOps,   &Mutation::dropExchangeOp,   &Mutation::changeGroup};
    for (int attempt = 0; attempt < 20; ++attempt)
      if (std::string what = (this->*kKinds[random() % std::size(kKinds)])(); !what.empty())
        return what;
    return "";
  }

private:
  size_t pick(size_t count) { return static_cast<size_t>(random() % count); }

  dist::ScheduleOp someSchedule() {
    auto schedules = llvm::to_vector(module.getOps<dist::ScheduleOp>());
    schedule = schedules[pick(schedules.size())];
    instructions = llvm::to_vector(schedule.getInstructions().getAsRange<dist::InstructionAttr>());
    return schedule;
  }

  std::string put(const std::string &what) {
    llvm::SmallVector<mlir::Attribute> changed(instructions.begin(), instructions.end());
    schedule.setInstructionsAttr(builder.getArrayAttr(changed));
    return what + " on stage " + std::to_string(schedule.getStage());
  }

  static std::string print(mlir::Attribute attribute) {
    std::string text;
    llvm::raw_string_ostream(text) << attribute;
    return text;
  }

  /// A random instruction for which `isWanted`; its index, or that of the end.
  size_t someInstruction(llvm::function_ref<bool(dist::InstructionAttr)> isWanted) {
    someSchedule();
    std::vector<size_t> wanted;
    for (auto [index, instruction] : llvm::enumerate(instructions))
      if (isWanted(instruction))
        wanted.push_back(index);
    return wanted.empty() ? instructions.size() : wanted[pick(wanted.size())];
  }

  std::string swapNeighbours() {
    someSchedule();
    size_t at = pick(instructions.size() - 1);
    std::swap(instructions[at], instructions[at + 1]);
    return put("swapped " + print(instructions[at + 1]) + " with what follows");
  }

  std::string moveInstruction() {
    someSchedule();
    size_t from = pick(instructions.size());
    dist::InstructionAttr moved = instructions[from];
    instructions.erase(instructions.begin() + from);
    size_t to = pick(instructions.size() + 1);
    instructions.insert(instructions.begin() + to, moved);
    return put("moved " + print(moved) + " from " + std::to_string(from) + " to " + std::to_string(to));
  }

  std::string dropInstruction() {
    someSchedule();
    size_t at = pick(instructions.size());
    dist::InstructionAttr dropped = instructions[at];
    instructions.erase(instructions.begin() + at);
    return put("dropped " + print(dropped));
  }

  std::string repeatInstruction() {
    someSchedule();
    size_t at = pick(instructions.size());
    instructions.insert(instructions.begin() + at, dist::InstructionAttr(instructions[at]));
    return put("repeated " + print(instructions[at]));
  }

  static bool isCompute(dist::InstructionAttr instruction) {
    return instruction.getKind() == dist::InstructionKind::forward ||
           instruction.getKind() == dist::InstructionKind::backward;
  }
  static bool hasTransfers(dist::InstructionAttr instruction) { return !instruction.getTransfers().empty(); }

  dist::InstructionAttr compute(dist::InstructionAttr old, int64_t virtualStage, int64_t microBatch, int64_t slot) {
    return dist::InstructionAttr::get(builder.getContext(), old.getKind(), virtualStage, microBatch, slot, {});
  }
  dist::InstructionAttr exchange(llvm::ArrayRef<dist::TransferAttr> transfers) {
    return dist::InstructionAttr::get(builder.getContext(), dist::InstructionKind::exchange, 0, 0, 0, transfers);
  }
  dist::TransferAttr transfer(dist::TransferAttr old, bool isSend, int64_t virtualStage, int64_t microBatch,
                              int64_t slot) {
    return dist::TransferAttr::get(builder.getContext(), isSend, old.getDirection(), virtualStage, microBatch, slot);
  }

  /// A changed number: another of `count`.
  int64_t another(int64_t value, int64_t count) {
    return count < 2 ? value : (value + 1 + static_cast<int64_t>(pick(static_cast<size_t>(count - 1)))) % count;
  }

  int64_t countMicroBatches() {
    int64_t most = 0;
    for (dist::InstructionAttr instruction : instructions)
      most = std::max<int64_t>(most, instruction.getMicroBatch() + 1);
    return most;
  }

  std::string changeNumbers(llvm::function_ref<void(int64_t &, int64_t &, int64_t &)> change, const std::string &what) {
    size_t at = someInstruction([](dist::InstructionAttr each) { return isCompute(each) || hasTransfers(each); });
    if (at == instructions.size())
      return "";
    dist::InstructionAttr old = instructions[at];
    if (isCompute(old)) {
      int64_t chunk = old.getVirtualStage(), micro = old.getMicroBatch(), slot = old.getSlot();
      change(chunk, micro, slot);
      instructions[at] = compute(old, chunk, micro, slot);
    } else {
      auto transfers = llvm::to_vector(old.getTransfers());
      dist::TransferAttr &one = transfers[pick(transfers.size())];
      int64_t chunk = one.getVirtualStage(), micro = one.getMicroBatch(), slot = one.getSlot();
      change(chunk, micro, slot);
      one = transfer(one, one.getIsSend(), chunk, micro, slot);
      instructions[at] = exchange(transfers);
    }
    return instructions[at] == old ? "" : put(what + " of " + print(old));
  }

  std::string changeMicroBatch() {
    return changeNumbers([&](int64_t &, int64_t &micro, int64_t &) { micro = another(micro, countMicroBatches()); },
                         "micro-batch");
  }
  std::string changeSlot() {
    return changeNumbers([&](int64_t &, int64_t &, int64_t &slot) { slot = another(slot, schedule.getSlots()); },
                         "slot");
  }
  std::string changeChunk() {
    int64_t pieces = dist::MeshOp::find(module).getVirtualStages();
    return changeNumbers([&](int64_t &chunk, int64_t &, int64_t &) { chunk = another(chunk, pieces); },
                         "virtual stage");
  }

  std::string changeTransfers(const std::string &what,
                              llvm::function_ref<bool(llvm::SmallVector<dist::TransferAttr> &)> change) {
    size_t at = someInstruction(hasTransfers);
    if (at == instructions.size())
      return "";
    dist::InstructionAttr old = instructions[at];
    auto transfers = llvm::to_vector(old.getTransfers());
    if (!change(transfers))
      return "";
    instructions[at] = exchange(transfers);
    return put(what + " of " + print(old));
  }

  std::string dropTransfer() {
    return changeTransfers("a transfer dropped", [&](llvm::SmallVector<dist::TransferAttr> &transfers) {
      transfers.erase(transfers.begin() + pick(transfers.size()));
      return !transfers.empty();
    });
  }
  std::string swapTransfers() {
    return changeTransfers("transfers swapped", [&](llvm::SmallVector<dist::TransferAttr> &transfers) {
      if (transfers.size() < 2)
        return false;
      size_t at = pick(transfers.size() - 1);
      std::swap(transfers[at], transfers[at + 1]);
      return true;
    });
  }
  std::string turnTransfer() {
    return changeTransfers("a transfer turned", [&](llvm::SmallVector<dist::TransferAttr> &transfers) {
      dist::TransferAttr &one = transfers[pick(transfers.size())];
      one = transfer(one, !one.getIsSend(), one.getVirtualStage(), one.getMicroBatch(), one.getSlot());
      return true;
    });
  }

  /// Each transfer of an exchange by itself, one after the other.
  std::string splitExchange() {
    size_t at = someInstruction([](dist::InstructionAttr each) { return each.getTransfers().size() > 1; });
    if (at == instructions.size())
      return "";
    dist::InstructionAttr old = instructions[at];
    instructions.erase(instructions.begin() + at);
    for (dist::TransferAttr one : llvm::reverse(old.getTransfers()))
      instructions.insert(instructions.begin() + at, exchange(one));
    return put("split " + print(old));
  }

  std::string joinExchanges() {
    size_t at = someInstruction(hasTransfers);
    if (at + 1 >= instructions.size() || !hasTransfers(instructions[at + 1]))
      return "";
    auto transfers = llvm::to_vector(instructions[at].getTransfers());
    llvm::append_range(transfers, instructions[at + 1].getTransfers());
    instructions.erase(instructions.begin() + at);
    instructions[at] = exchange(transfers);
    return put("joined two exchanges into " + print(instructions[at]));
  }

  std::vector<dist::ExchangeOpInterface> exchangeOps() {
    std::vector<dist::ExchangeOpInterface> ops;
    module.walk([&](dist::ExchangeOpInterface op) { ops.push_back(op); });
    return ops;
  }
  static std::string nameOf(dist::ExchangeOpInterface op) {
    return dist::stringifyExchangeKind(op.getExchange()).str() + " of " + op.getCauseText().str() + " in @" +
           op->getParentOfType<FuncOp>().getSymName().str();
  }

  /// An exchange is started after the next one of its function.
  std::string swapExchangeOps() {
    std::vector<dist::ExchangeOpInterface> ops = exchangeOps();
    if (ops.empty())
      return "";
    dist::ExchangeOpInterface op = ops[pick(ops.size())];
    mlir::Operation *user = op->getResult(0).hasOneUse() ? *op->getResult(0).getUsers().begin() : nullptr;
    for (mlir::Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
      if (next == user || !user)
        return "";
      if (mlir::isa<dist::ExchangeOpInterface>(next)) {
        op->moveAfter(next);
        return nameOf(op) + " started after " + nameOf(mlir::cast<dist::ExchangeOpInterface>(next));
      }
    }
    return "";
  }

  /// What would be exchanged stays as it is.
  std::string dropExchangeOp() {
    std::vector<dist::ExchangeOpInterface> ops = exchangeOps();
    llvm::erase_if(ops, [](dist::ExchangeOpInterface op) { return op.getOperandType() != op.getResultType(); });
    if (ops.empty())
      return "";
    dist::ExchangeOpInterface op = ops[pick(ops.size())];
    if (!op->getResult(0).hasOneUse())
      return "";
    mlir::Operation *wait = *op->getResult(0).getUsers().begin();
    std::string what = "dropped " + nameOf(op);
    wait->getResult(0).replaceAllUsesWith(op->getOperand(0));
    wait->erase();
    op->erase();
    return what;
  }

  /// Over one stage less.
  std::string changeGroup() {
    std::vector<dist::ExchangeOpInterface> ops = exchangeOps();
    llvm::erase_if(ops, [](dist::ExchangeOpInterface op) { return op.getExchangeGroup().getStages().size() < 2; });
    if (ops.empty())
      return "";
    dist::ExchangeOpInterface op = ops[pick(ops.size())];
    dist::GroupAttr group = op.getExchangeGroup();
    auto smaller = dist::GroupAttr::get(builder.getContext(), group.getAxes(), group.getStages().drop_back());
    for (mlir::NamedAttribute attribute : op->getAttrs())
      if (attribute.getValue() == group)
        op->setAttr(attribute.getName(), smaller);
    return "a smaller group of " + nameOf(op);
  }

  mlir::ModuleOp module;
  mlir::Builder builder;
  std::mt19937_64 random;
  dist::ScheduleOp schedule;
  llvm::SmallVector<dist::InstructionAttr> instructions;
};

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
  int faults = 0, unseen = 0;
  for (uint64_t seed = kSeeds.first; seed < kSeeds.first + kSeeds.second; ++seed) {
    std::vector<std::string> names(kMutants);
    std::vector<std::function<void(mlir::ModuleOp)>> changes;
    for (uint64_t mutant = 0; mutant < kMutants; ++mutant)
      changes.push_back([&names, seed, mutant](mlir::ModuleOp module) {
        names[mutant] = Mutation(module, seed * 1000 + mutant).apply();
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
  EXPECT_LE(unseen * 20, faults) << "5 %";
  EXPECT_GE(counts["hangs, refused"] * 20, static_cast<int>(kSeeds.second * kMutants)) << "the mutants are no test";
}
