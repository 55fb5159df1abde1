// Steps all stages together until all are done or none can go on.
#include "hyc/Analysis/CommunicationCheck.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;
using dist::TransferAttr;

namespace {

/// What a stage does next that needs others: an exchange with neighbours, or a collective with other stages.
struct Event {
  dist::InstructionAttr instruction;
  dist::ExchangeOpInterface collective; // null for an exchange with neighbours
  SmallVector<TransferAttr> unfinished; // of an exchange: transfers whose partner has not come yet
};

struct StageState {
  SmallVector<Event> events;
  size_t next = 0;
  bool done() const { return next == events.size(); }
  Event &current() { return events[next]; }
};

/// The collectives of `func` that wait for other stages. Those within a stage meet by construction: their members run
/// one and the same program.
SmallVector<dist::ExchangeOpInterface> collectivesOf(FuncOp func) {
  SmallVector<dist::ExchangeOpInterface> collectives;
  func.walk([&](dist::ExchangeOpInterface op) {
    if (op.getExchangeGroup().getStages().size() > 1)
      collectives.push_back(op);
  });
  return collectives;
}

/// The phase-4 function that an instruction of `stage` calls; empty for those that call none.
std::string calleeOf(dist::InstructionAttr instruction, int64_t stage, dist::MeshOp mesh) {
  switch (instruction.getKind()) {
  case dist::InstructionKind::forward:
  case dist::InstructionKind::backward:
    return dist::functionName(instruction.getKind(), mesh.getChunk(stage, instruction.getVirtualStage()));
  case dist::InstructionKind::reduce:
  case dist::InstructionKind::apply:
    return dist::functionName(instruction.getKind(), stage);
  case dist::InstructionKind::exchange:
  case dist::InstructionKind::begin_step:
    return "";
  }
  return "";
}

FailureOr<StageState> eventsOf(const SymbolTable &symbols, dist::ScheduleOp schedule, dist::MeshOp mesh) {
  StageState state;
  llvm::StringMap<SmallVector<dist::ExchangeOpInterface>> collectives; // by function: each is run for every micro-batch
  for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>()) {
    if (instruction.getKind() == dist::InstructionKind::exchange) {
      state.events.push_back({instruction, {}, llvm::to_vector(instruction.getTransfers())});
      continue;
    }
    std::string name = calleeOf(instruction, schedule.getStage(), mesh);
    if (name.empty())
      continue;
    auto [entry, isNew] = collectives.try_emplace(name);
    if (isNew) {
      auto func = symbols.lookup<FuncOp>(name);
      if (!func)
        return schedule.emitError("runs @") << name << ", which is not there";
      entry->second = collectivesOf(func);
    }
    for (dist::ExchangeOpInterface collective : entry->second)
      state.events.push_back({instruction, collective, {}});
  }
  return state;
}

class Simulation {
public:
  Simulation(ModuleOp module, dist::MeshOp mesh, MutableArrayRef<StageState> stages)
      : module(module), mesh(mesh), stages(stages) {}

  LogicalResult run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (size_t stage = 0; stage < stages.size(); ++stage) {
        if (stages[stage].done())
          continue;
        FailureOr<bool> advanced = stages[stage].current().collective ? meet(stage) : exchange(stage);
        if (failed(advanced))
          return failure();
        progress |= *advanced;
      }
    }
    return llvm::all_of(stages, [](const StageState &state) { return state.done(); }) ? success() : reportDeadlock();
  }

private:
  /// The chunk of `stage` that makes or takes what is transferred, and the chunk at the other side.
  int64_t chunkOf(size_t stage, TransferAttr transfer) {
    return mesh.getChunk(static_cast<int64_t>(stage), transfer.getVirtualStage());
  }
  int64_t peerChunkOf(size_t stage, TransferAttr transfer) { return transfer.getPeerOf(chunkOf(stage, transfer)); }

  /// The first of a stage's unfinished transfers that goes to `peer`, or comes from there: between two stages they meet
  /// in the order in which they are listed.
  TransferAttr *firstWith(size_t stage, int64_t peer, bool isSend) {
    return llvm::find_if(stages[stage].current().unfinished, [&](TransferAttr transfer) {
      return transfer.getIsSend() == isSend && mesh.getStageOf(peerChunkOf(stage, transfer)) == peer;
    });
  }

  LogicalResult checkPeer(size_t stage, TransferAttr transfer) {
    int64_t peer = peerChunkOf(stage, transfer);
    if (peer >= 0 && peer < mesh.getChunks())
      return success();
    if (mesh.getVirtualStages() == 1)
      return module.emitError("stage ") << stage << " has " << text(transfer) << ", but there is no stage " << peer;
    return module.emitError("stage ") << stage << " has " << text(transfer) << ", but there is no chunk " << peer
                                      << " of " << mesh.getChunks();
  }

  /// Completes the transfers whose partner stands at the other side now.
  FailureOr<bool> exchange(size_t stage) {
    Event &event = stages[stage].current();
    bool progress = false;
    for (TransferAttr transfer : llvm::to_vector(event.unfinished)) {
      if (failed(checkPeer(stage, transfer)))
        return failure();
      int64_t peer = mesh.getStageOf(peerChunkOf(stage, transfer));
      if (stages[peer].done() || stages[peer].current().collective ||
          *firstWith(stage, peer, transfer.getIsSend()) != transfer)
        continue;
      auto &others = stages[peer].current().unfinished;
      TransferAttr *partner = firstWith(peer, static_cast<int64_t>(stage), !transfer.getIsSend());
      if (partner == others.end() || partner->getDirection() != transfer.getDirection() ||
          partner->getMicroBatch() != transfer.getMicroBatch() ||
          chunkOf(peer, *partner) != peerChunkOf(stage, transfer))
        continue;
      others.erase(partner);
      llvm::erase(event.unfinished, transfer);
      progress = true;
    }
    if (!event.unfinished.empty())
      return progress;
    ++stages[stage].next;
    return true;
  }

  /// Completes a collective that every stage of its group stands at.
  FailureOr<bool> meet(size_t stage) {
    dist::ExchangeOpInterface op = stages[stage].current().collective;
    dist::GroupAttr group = op.getExchangeGroup();
    for (int64_t member : group.getStages()) {
      if (member < 0 || member >= static_cast<int64_t>(stages.size()))
        return op->emitError("takes part with stage ") << member << ", but there are " << stages.size() << " stages";
      if (stages[member].done())
        return false;
      dist::ExchangeOpInterface other = stages[member].current().collective;
      if (!other || other.getExchangeGroup() != group)
        return false;
      if (!meansTheSame(op, other))
        return (op->emitError("stage ") << stage << " starts " << text(op) << ", but stage " << member << " starts "
                                        << text(other) << " in the same place")
                   .attachNote(other->getLoc())
               << "the other collective";
    }
    for (int64_t member : group.getStages())
      ++stages[member].next;
    return true;
  }

  LogicalResult reportDeadlock() {
    InFlightDiagnostic diagnostic = module.emitError("the schedules deadlock: ");
    bool first = true;
    for (auto [stage, state] : llvm::enumerate(stages)) {
      diagnostic << (first ? "" : "; ") << "stage " << stage;
      first = false;
      if (state.done())
        diagnostic << " is done";
      else if (state.current().collective)
        diagnostic << " waits in " << text(state.current().collective);
      else
        for (auto [index, transfer] : llvm::enumerate(state.current().unfinished))
          diagnostic << (index ? ", " : " waits to ") << text(transfer);
    }
    return diagnostic;
  }

  static std::string text(TransferAttr transfer) {
    std::string result = ((transfer.getIsSend() ? "send " : "receive ") + stringifyDirection(transfer.getDirection()) +
                          " of micro-batch " + Twine(transfer.getMicroBatch()))
                             .str();
    return transfer.getVirtualStage() == 0 ? result
                                           : result + " of virtual stage " + std::to_string(transfer.getVirtualStage());
  }

  /// Whether two starts are of one exchange: equal but for why they were asked for. A shift by 1 does not meet one
  /// by 2.
  static bool meansTheSame(dist::ExchangeOpInterface a, dist::ExchangeOpInterface b) {
    auto withoutReason = [](dist::ExchangeOpInterface op) {
      NamedAttrList attributes;
      op->getName().populateInherentAttrs(op, attributes);
      attributes.erase("why");
      return attributes.getDictionary(op->getContext());
    };
    return a.getExchange() == b.getExchange() && a.getOperandType() == b.getOperandType() &&
           a.getResultType() == b.getResultType() && withoutReason(a) == withoutReason(b);
  }

  static std::string text(dist::ExchangeOpInterface op) {
    std::string result;
    llvm::raw_string_ostream os(result);
    os << dist::stringifyExchangeKind(op.getExchange());
    if (!op.getCauseText().empty())
      os << " of \"" << op.getCauseText() << "\"";
    os << " over " << op.getExchangeGroup();
    return result;
  }

  ModuleOp module;
  dist::MeshOp mesh;
  MutableArrayRef<StageState> stages;
};

} // namespace

LogicalResult hyc::checkCommunication(ModuleOp module) {
  dist::MeshOp mesh = dist::MeshOp::find(module);
  if (!mesh)
    return module.emitError("has no dist.mesh");
  SymbolTable symbols(module);
  SmallVector<StageState> stages(mesh.getStages());
  for (auto schedule : module.getOps<dist::ScheduleOp>()) {
    if (schedule.getStage() >= stages.size())
      return schedule.emitError("is for stage ") << schedule.getStage() << " of " << stages.size();
    FailureOr<StageState> state = eventsOf(symbols, schedule, mesh);
    if (failed(state))
      return failure();
    stages[schedule.getStage()] = std::move(*state);
  }
  return Simulation(module, mesh, stages).run();
}
