// GPipe, 1F1B and interleaved 1F1B as tables, and what is left of them without backward.
#include "dialects/Dist/DistDialect.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"

namespace hyc {
#define GEN_PASS_DEF_BUILDSCHEDULE
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::Direction;
using dist::InstructionKind;

namespace {

/// Writes one stage's table.
class TableBuilder {
public:
  TableBuilder(dist::MeshOp mesh, int64_t stage, int64_t microBatches)
      : mesh(mesh), context(mesh.getContext()), stage(stage), stages(mesh.getStages()),
        virtualStages(mesh.getVirtualStages()), microBatches(microBatches) {}

  /// All forwards, then all backwards.
  SmallVector<Attribute> gpipe() {
    add(InstructionKind::begin_step);
    for (int64_t m = 0; m < microBatches; ++m) {
      exchange({receiveForward({0, m})});
      forward({0, m});
      exchange({sendForward({0, m})});
    }
    for (int64_t m = 0; m < microBatches; ++m) {
      exchange({receiveBackward({0, m})});
      backward({0, m});
      exchange({sendBackward({0, m})});
    }
    return finish();
  }

  SmallVector<Attribute> oneForwardOneBackward() {
    int64_t ahead = std::min(stages - stage - 1, microBatches);
    add(InstructionKind::begin_step);
    for (int64_t m = 0; m < ahead; ++m) {
      exchange({receiveForward({0, m})});
      forward({0, m});
      exchange({sendForward({0, m})});
    }
    if (ahead < microBatches)
      exchange({receiveForward({0, ahead})});
    for (int64_t m = ahead; m < microBatches; ++m) {
      int64_t done = m - ahead;
      forward({0, m});
      exchange({sendForward({0, m}), receiveBackward({0, done})});
      backward({0, done});
      if (m + 1 < microBatches)
        exchange({sendBackward({0, done}), receiveForward({0, m + 1})});
      else
        exchange({sendBackward({0, done})});
    }
    for (int64_t m = microBatches - ahead; m < microBatches; ++m) {
      exchange({receiveBackward({0, m})});
      backward({0, m});
      exchange({sendBackward({0, m})});
    }
    return finish();
  }

  /// Round r computes forward r, as long as there are any, and backward r - `ahead`. One exchange before each round
  /// sends what the last round has made and receives what this one needs. Both ends of a transfer lie in exchanges of
  /// equal r + s on stage s, those between the last stage and the first included: no circle of stages waits for one
  /// another.
  SmallVector<Attribute> interleaved() {
    int64_t chunkPasses = microBatches * virtualStages, ahead = 2 * (stages - stage - 1) + (virtualStages - 1) * stages;
    add(InstructionKind::begin_step);
    for (int64_t round = 0; round <= chunkPasses + ahead; ++round) {
      auto at = [&](int64_t index, auto &&which) -> std::optional<Work> {
        return index >= 0 && index < chunkPasses ? std::optional(which(index)) : std::nullopt;
      };
      auto ofForward = [&](int64_t index) { return forwardWork(index); };
      auto ofBackward = [&](int64_t index) { return backwardWork(index); };
      std::optional<Work> lastForward = at(round - 1, ofForward), nextForward = at(round, ofForward);
      std::optional<Work> lastBackward = at(round - 1 - ahead, ofBackward),
                          nextBackward = at(round - ahead, ofBackward);
      // What is received forward takes the slot that the last backward has emptied. Of two stages both transfers in one
      // direction have the same ends: forward comes first on both sides.
      exchange({lastForward ? sendForward(*lastForward) : MaybeTransfer(),
                lastBackward ? sendBackward(*lastBackward) : MaybeTransfer(),
                nextForward ? receiveForward(*nextForward) : MaybeTransfer(),
                nextBackward ? receiveBackward(*nextBackward) : MaybeTransfer()});
      if (nextForward)
        forward(*nextForward);
      if (nextBackward)
        backward(*nextBackward);
    }
    return finish();
  }

  /// Round r computes forward r; the exchange before it sends what the last one has made and receives what this one
  /// needs, as in interleaved(). Nothing is kept, so one slot serves all.
  SmallVector<Attribute> forwardOnly() {
    keeps = false;
    slots.resize(1);
    add(InstructionKind::begin_step);
    for (int64_t round = 0, rounds = microBatches * virtualStages; round <= rounds; ++round) {
      exchange({round > 0 ? sendForward(forwardWork(round - 1)) : MaybeTransfer(),
                round < rounds ? receiveForward(forwardWork(round)) : MaybeTransfer()});
      if (round < rounds)
        add(InstructionKind::forward, forwardWork(round), 0);
    }
    add(InstructionKind::reduce);
    return std::move(table);
  }

  int64_t getSlots() const { return static_cast<int64_t>(slots.size()); }

private:
  using MaybeTransfer = std::optional<dist::TransferAttr>;

  /// One micro-batch of one chunk.
  struct Work {
    int64_t virtualStage, microBatch;
    bool operator==(const Work &other) const {
      return virtualStage == other.virtualStage && microBatch == other.microBatch;
    }
  };

  /// The chunks in turn, `stages` micro-batches each, then the next micro-batches.
  Work forwardWork(int64_t index) const {
    int64_t ofGroup = index % (stages * virtualStages);
    return {ofGroup / stages, index / (stages * virtualStages) * stages + ofGroup % stages};
  }
  Work backwardWork(int64_t index) const {
    Work work = forwardWork(index);
    return {virtualStages - 1 - work.virtualStage, work.microBatch};
  }

  /// The slot that holds `work`; the first free one if none does.
  int64_t slotOf(const Work &work) {
    if (!keeps)
      return 0;
    auto held = llvm::find(slots, std::optional(work));
    if (held == slots.end())
      held = llvm::find(slots, std::nullopt);
    if (held == slots.end()) {
      slots.push_back(work);
      return static_cast<int64_t>(slots.size()) - 1;
    }
    *held = work;
    return held - slots.begin();
  }

  /// Nothing where the model begins or ends here.
  MaybeTransfer transfer(bool isSend, Direction direction, const Work &work) {
    auto at = [&](int64_t slot) {
      return dist::TransferAttr::get(context, isSend, direction, work.virtualStage, work.microBatch, slot);
    };
    int64_t peer = at(0).getPeerOf(mesh.getChunk(stage, work.virtualStage));
    if (peer < 0 || peer >= mesh.getChunks())
      return std::nullopt;
    // Backward has emptied the slot, but what it made lies there until it is sent.
    return at(isSend && direction == Direction::backward ? emptied : slotOf(work));
  }
  MaybeTransfer receiveForward(Work work) { return transfer(false, Direction::forward, work); }
  MaybeTransfer sendForward(Work work) { return transfer(true, Direction::forward, work); }
  MaybeTransfer receiveBackward(Work work) { return transfer(false, Direction::backward, work); }
  MaybeTransfer sendBackward(Work work) { return transfer(true, Direction::backward, work); }

  void add(InstructionKind kind, Work work = {0, 0}, int64_t slot = 0, ArrayRef<dist::TransferAttr> transfers = {}) {
    table.push_back(dist::InstructionAttr::get(context, kind, work.virtualStage, work.microBatch, slot, transfers));
  }
  void forward(Work work) { add(InstructionKind::forward, work, slotOf(work)); }
  void backward(Work work) {
    emptied = slotOf(work);
    slots[emptied].reset();
    add(InstructionKind::backward, work, emptied);
  }
  void exchange(std::initializer_list<MaybeTransfer> maybe) {
    SmallVector<dist::TransferAttr> transfers;
    for (const MaybeTransfer &transfer : maybe)
      if (transfer)
        transfers.push_back(*transfer);
    if (!transfers.empty())
      add(InstructionKind::exchange, {0, 0}, 0, transfers);
  }
  SmallVector<Attribute> finish() {
    add(InstructionKind::reduce);
    add(InstructionKind::apply);
    return std::move(table);
  }

  dist::MeshOp mesh;
  MLIRContext *context;
  int64_t stage, stages, virtualStages, microBatches;
  bool keeps = true;                      // whether backward needs what forward has made
  SmallVector<std::optional<Work>> slots; // what each holds
  int64_t emptied = 0;                    // the slot of the last backward
  SmallVector<Attribute> table;
};

struct BuildSchedule : hyc::impl::BuildScheduleBase<BuildSchedule> {
  using BuildScheduleBase::BuildScheduleBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!mesh) {
      module.emitError("has no dist.mesh to plan for");
      return signalPassFailure();
    }
    if (failed(check(mesh)))
      return signalPassFailure();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    for (int64_t stage = 0, stages = mesh.getStages(); stage < stages; ++stage) {
      TableBuilder table(mesh, stage, microBatches);
      SmallVector<Attribute> instructions = schedule == "forward"         ? table.forwardOnly()
                                            : schedule == "gpipe"         ? table.gpipe()
                                            : mesh.getVirtualStages() > 1 ? table.interleaved()
                                                                          : table.oneForwardOneBackward();
      dist::ScheduleOp::create(builder, module.getLoc(), stage, table.getSlots(), builder.getArrayAttr(instructions));
    }
  }

private:
  LogicalResult check(dist::MeshOp mesh) {
    int64_t stages = mesh.getStages(), virtualStages = mesh.getVirtualStages(), count = microBatches;
    if (schedule != "gpipe" && schedule != "1f1b" && schedule != "forward")
      return mesh->getParentOp()->emitError("schedule is \"") << schedule << "\", expected gpipe, 1f1b or forward";
    if (count < 1)
      return mesh->getParentOp()->emitError("step has ") << count << " micro-batches, expected at least 1";
    if (virtualStages == 1)
      return success();
    if (schedule == "gpipe")
      return mesh.emitError("has ") << virtualStages << " virtual stages, but schedule gpipe has none; expected 1f1b";
    if (count % stages != 0)
      return mesh.emitError("has virtual stages, whose schedule passes micro-batches on in groups of ")
             << stages << ", one a stage, but " << count << " micro-batches = " << count / stages << " × " << stages
             << " + " << count % stages;
    return success();
  }
};
} // namespace
