// Follows each schedule by what its slots hold.
#include "hyc/Analysis/ScheduleCheck.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"

#include <map>
#include <optional>
#include <set>

using namespace mlir;
using namespace hyc;
using dist::Direction;
using dist::InstructionAttr;
using dist::InstructionKind;
using dist::TransferAttr;

namespace {

/// A micro-batch in one of the stage's chunks: virtual stage, micro-batch.
using Work = std::pair<int64_t, int64_t>;

std::string describe(Work work) {
  std::string text = "micro-batch " + std::to_string(work.second);
  return work.first == 0 ? text : text + " of virtual stage " + std::to_string(work.first);
}

struct Slot {
  std::optional<Work> received[2], toSend[2]; // by direction
  std::optional<Work> saved;
};

int indexOf(Direction direction) { return direction == Direction::backward; }

bool hasChannel(FuncOp func, bool isResult) {
  unsigned count = isResult ? func.getNumResults() : func.getNumArguments();
  for (unsigned i = 0; i < count; ++i)
    if (isResult ? func.getResultAttr(i, dist::kChannel) : func.getArgAttr(i, dist::kChannel))
      return true;
  return false;
}

class StageFollower {
public:
  StageFollower(const SymbolTable &symbols, dist::MeshOp mesh, dist::ScheduleOp schedule)
      : symbols(symbols), mesh(mesh), schedule(schedule), stage(static_cast<int64_t>(schedule.getStage())) {
    // By either: of one micro-batch the only backward may be what is missing.
    for (auto instruction : schedule.getInstructions().getAsRange<InstructionAttr>())
      trains |= instruction.getKind() == InstructionKind::backward || instruction.getKind() == InstructionKind::apply;
  }

  /// `computed`: what was done of every chunk, for comparing stages.
  LogicalResult run(std::map<int64_t, std::set<int64_t>> &computed) {
    for (auto [index, instruction] : llvm::enumerate(schedule.getInstructions().getAsRange<InstructionAttr>())) {
      position = index;
      current = instruction;
      if (failed(step(instruction)))
        return failure();
    }
    if (failed(checkEnd()))
      return failure();
    for (Work work : forwards)
      computed[mesh.getChunk(stage, work.first)].insert(work.second);
    return success();
  }

private:
  InFlightDiagnostic error() {
    return schedule.emitError("stage ") << stage << ", instruction " << position << " (" << current << "): ";
  }

  LogicalResult step(InstructionAttr instruction) {
    switch (instruction.getKind()) {
    case InstructionKind::forward:
      return compute(instruction, Direction::forward);
    case InstructionKind::backward:
      return compute(instruction, Direction::backward);
    case InstructionKind::exchange:
      return exchange(instruction);
    case InstructionKind::begin_step:
    case InstructionKind::reduce:
    case InstructionKind::apply:
      return once(instruction.getKind());
    }
    return success();
  }

  /// begin_step before all computation, reduce after it, apply last.
  LogicalResult once(InstructionKind kind) {
    if (!seen.insert(kind).second)
      return error() << "is there a second time";
    bool computes = !forwards.empty();
    if (kind == InstructionKind::begin_step && computes)
      return error() << "comes after the step's first forward";
    if (kind == InstructionKind::apply && !seen.count(InstructionKind::reduce))
      return error() << "comes before reduce, which sums up what it applies";
    return success();
  }

  LogicalResult compute(InstructionAttr instruction, Direction direction) {
    bool isForward = direction == Direction::forward;
    if (seen.count(InstructionKind::reduce))
      return error() << "comes after reduce, which sums up what all micro-batches have made";
    Work work{instruction.getVirtualStage(), instruction.getMicroBatch()};
    auto func = symbols.lookup<FuncOp>(
        dist::functionName(instruction.getKind(), mesh.getChunk(stage, instruction.getVirtualStage())));
    if (!func)
      return error() << "the stage has no such function";
    Slot &slot = slots[instruction.getSlot()];
    std::optional<Work> &received = slot.received[indexOf(direction)];
    if (received && *received != work)
      return error() << "slot " << instruction.getSlot() << " has received " << describe(*received);
    if (!received && hasChannel(func, /*isResult=*/false))
      return error() << "slot " << instruction.getSlot() << " has received nothing for it";
    received.reset();
    if (!(isForward ? forwards : backwards).insert(work).second)
      return error() << "is there a second time";
    if (isForward && trains && slot.saved)
      return error() << "slot " << instruction.getSlot() << " still holds what " << describe(*slot.saved) << " saved";
    if (!isForward && slot.saved != std::optional(work))
      return error() << "slot " << instruction.getSlot() << " does not hold what its forward saved";
    slot.saved = isForward && trains ? std::optional(work) : std::nullopt;
    if (!hasChannel(func, /*isResult=*/true))
      return success();
    std::optional<Work> &toSend = slot.toSend[indexOf(direction)];
    if (toSend)
      return error() << "slot " << instruction.getSlot() << " still holds what " << describe(*toSend) << " has to send";
    toSend = work;
    return success();
  }

  LogicalResult exchange(InstructionAttr instruction) {
    for (TransferAttr transfer : instruction.getTransfers())
      if (failed(transfer.getIsSend() ? send(transfer) : receive(transfer)))
        return failure();
    for (TransferAttr transfer : instruction.getTransfers()) // when the exchange has ended
      if (!transfer.getIsSend())
        slots[transfer.getSlot()].received[indexOf(transfer.getDirection())] =
            Work{transfer.getVirtualStage(), transfer.getMicroBatch()};
    return success();
  }

  LogicalResult send(TransferAttr transfer) {
    auto kind = transfer.isForward() ? InstructionKind::forward : InstructionKind::backward;
    auto func = symbols.lookup<FuncOp>(dist::functionName(kind, mesh.getChunk(stage, transfer.getVirtualStage())));
    // Where no gradient flows further back nothing crosses, and the ends still meet.
    if (!func || !hasChannel(func, /*isResult=*/true))
      return success();
    std::optional<Work> &toSend = slots[transfer.getSlot()].toSend[indexOf(transfer.getDirection())];
    Work work{transfer.getVirtualStage(), transfer.getMicroBatch()};
    if (toSend != std::optional(work))
      return error() << "slot " << transfer.getSlot() << " has nothing of " << describe(work) << " to send";
    toSend.reset();
    return success();
  }

  LogicalResult receive(TransferAttr transfer) {
    Slot &slot = slots[transfer.getSlot()];
    if (std::optional<Work> received = slot.received[indexOf(transfer.getDirection())])
      return error() << "slot " << transfer.getSlot() << " still holds what was received for " << describe(*received);
    if (transfer.isForward() && slot.saved)
      return error() << "slot " << transfer.getSlot() << " still holds what " << describe(*slot.saved) << " saved";
    return success();
  }

  LogicalResult checkEnd() {
    auto left = [&](const std::optional<Work> &what, int64_t slot, const char *verb) -> LogicalResult {
      if (!what)
        return success();
      return schedule.emitError("stage ")
             << stage << " ends its step with slot " << slot << " full: " << verb << " " << describe(*what);
    };
    for (const auto &[index, slot] : slots) {
      if (failed(left(slot.saved, index, "no backward uses what was saved for")))
        return failure();
      for (Direction direction : {Direction::forward, Direction::backward})
        if (failed(left(slot.received[indexOf(direction)], index, "nothing uses what was received for")) ||
            failed(left(slot.toSend[indexOf(direction)], index, "nobody sends what was computed for")))
          return failure();
    }
    for (InstructionKind kind : {InstructionKind::begin_step, InstructionKind::reduce, InstructionKind::apply})
      if (trains && !seen.count(kind))
        return schedule.emitError("stage ") << stage << " has no " << dist::stringifyInstructionKind(kind);
    return success();
  }

  const SymbolTable &symbols;
  dist::MeshOp mesh;
  dist::ScheduleOp schedule;
  int64_t stage;
  bool trains = false;
  std::map<int64_t, Slot> slots;
  std::set<Work> forwards, backwards;
  std::set<InstructionKind> seen;
  size_t position = 0;
  InstructionAttr current;
};

} // namespace

LogicalResult hyc::checkSchedules(ModuleOp module) {
  dist::MeshOp mesh = dist::MeshOp::find(module);
  if (!mesh)
    return module.emitError("has no dist.mesh");
  SymbolTable symbols(module);
  std::map<int64_t, std::set<int64_t>> computed; // micro-batches by chunk
  for (auto schedule : module.getOps<dist::ScheduleOp>())
    if (failed(StageFollower(symbols, mesh, schedule).run(computed)))
      return failure();
  for (const auto &[chunk, microBatches] : computed)
    if (microBatches != computed.begin()->second)
      return module.emitError("chunk ") << chunk << " computes " << microBatches.size() << " micro-batches, but chunk "
                                        << computed.begin()->first << " computes " << computed.begin()->second.size()
                                        << ", or others";
  return success();
}
