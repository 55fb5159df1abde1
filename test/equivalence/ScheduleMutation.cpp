// One fault in a partitioned program: instructions moved, dropped, repeated; transfers turned, dropped, in another
// order; slots, micro-batches, chunks changed; exchanges swapped, dropped, of another group.
#include "ScheduleMutation.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <random>

using namespace hyc;
using namespace hyc::equivalence;

namespace {

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
                                  &Mutation::swapExchangeOps,   &Mutation::dropExchangeOp,   &Mutation::changeGroup,
                                  &Mutation::swapMeetings,      &Mutation::changeAxes};
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

  /// Exchanges with other stages.
  std::vector<dist::ExchangeOpInterface> meetings() {
    std::vector<dist::ExchangeOpInterface> ops = exchangeOps();
    llvm::erase_if(ops, [](dist::ExchangeOpInterface op) { return op.getExchangeGroup().getStages().size() < 2; });
    return ops;
  }

  static void setGroup(dist::ExchangeOpInterface op, dist::GroupAttr group) {
    dist::GroupAttr old = op.getExchangeGroup();
    for (mlir::NamedAttribute attribute : op->getAttrs())
      if (attribute.getValue() == old)
        op->setAttr(attribute.getName(), group);
  }

  /// Over one stage less.
  std::string changeGroup() {
    std::vector<dist::ExchangeOpInterface> ops = meetings();
    if (ops.empty())
      return "";
    dist::ExchangeOpInterface op = ops[pick(ops.size())];
    dist::GroupAttr group = op.getExchangeGroup();
    setGroup(op, dist::GroupAttr::get(builder.getContext(), group.getAxes(), group.getStages().drop_back()));
    return "a smaller group of " + nameOf(op);
  }

  /// One stage meets the others over other axes than they do.
  std::string changeAxes() {
    std::vector<dist::ExchangeOpInterface> ops = meetings();
    if (ops.empty())
      return "";
    dist::ExchangeOpInterface op = ops[pick(ops.size())];
    dist::GroupAttr group = op.getExchangeGroup();
    auto names = llvm::to_vector(dist::MeshOp::find(module).getAxes().getAsRange<mlir::StringAttr>());
    mlir::StringAttr axis = names[pick(names.size())];
    auto axes = llvm::to_vector(group.getAxes().getAxes());
    if (llvm::is_contained(axes, axis))
      llvm::erase(axes, axis);
    else
      axes.push_back(axis);
    auto list = dist::AxisListAttr::get(builder.getContext(), axes);
    setGroup(op, dist::GroupAttr::get(builder.getContext(), list, group.getStages()));
    return "other axes of " + nameOf(op);
  }

  /// Two exchanges of one function with the same stages, over the same axes or others, are made in the other order.
  std::string swapMeetings() {
    std::vector<dist::ExchangeOpInterface> ops = meetings();
    if (ops.empty())
      return "";
    dist::ExchangeOpInterface op = ops[pick(ops.size())];
    std::vector<dist::ExchangeOpInterface> later;
    for (mlir::Operation *next = op->getNextNode(); next; next = next->getNextNode())
      if (auto other = mlir::dyn_cast<dist::ExchangeOpInterface>(next);
          other && other.getExchangeGroup().getStages() == op.getExchangeGroup().getStages())
        later.push_back(other);
    if (later.empty() || !op->getResult(0).hasOneUse())
      return "";
    dist::ExchangeOpInterface other = later[pick(later.size())];
    std::string how = other.getExchangeGroup() == op.getExchangeGroup() ? "" : " over other axes";
    // With its wait and all that needs it, as far as that does not reach what comes later.
    llvm::SetVector<mlir::Operation *> moved;
    moved.insert(op);
    for (mlir::Operation *next = op->getNextNode(); next != other.getOperation(); next = next->getNextNode())
      if (llvm::any_of(next->getOperands(), [&](mlir::Value value) { return moved.contains(value.getDefiningOp()); }))
        moved.insert(next);
    if (llvm::any_of(other->getOperands(), [&](mlir::Value value) { return moved.contains(value.getDefiningOp()); }))
      return "";
    mlir::Operation *after = other;
    for (mlir::Operation *each : moved) {
      each->moveAfter(after);
      after = each;
    }
    return nameOf(op) + " made after " + nameOf(other) + how;
  }

  mlir::ModuleOp module;
  mlir::Builder builder;
  std::mt19937_64 random;
  dist::ScheduleOp schedule;
  llvm::SmallVector<dist::InstructionAttr> instructions;
};

} // namespace

std::string hyc::equivalence::mutate(mlir::ModuleOp module, uint64_t seed) { return Mutation(module, seed).apply(); }
