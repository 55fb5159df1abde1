// GPipe and 1F1B as tables.
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

/// Writes one stage's table. Micro-batch m uses slot m mod slots.
class TableBuilder {
public:
  TableBuilder(MLIRContext *context, int64_t stage, int64_t stages, int64_t microBatches, int64_t slots)
      : context(context), stage(stage), stages(stages), microBatches(microBatches), slots(slots) {}

  SmallVector<Attribute> gpipe() {
    add(InstructionKind::begin_step);
    for (int64_t m = 0; m < microBatches; ++m) {
      exchange({receiveForward(m)});
      compute(InstructionKind::forward, m);
      exchange({sendForward(m)});
    }
    for (int64_t m = 0; m < microBatches; ++m) {
      exchange({receiveBackward(m)});
      compute(InstructionKind::backward, m);
      exchange({sendBackward(m)});
    }
    return finish();
  }

  SmallVector<Attribute> oneForwardOneBackward() {
    int64_t ahead = std::min(stages - stage - 1, microBatches);
    add(InstructionKind::begin_step);
    for (int64_t m = 0; m < ahead; ++m) {
      exchange({receiveForward(m)});
      compute(InstructionKind::forward, m);
      exchange({sendForward(m)});
    }
    if (ahead < microBatches)
      exchange({receiveForward(ahead)});
    for (int64_t m = ahead; m < microBatches; ++m) {
      int64_t done = m - ahead;
      compute(InstructionKind::forward, m);
      exchange({sendForward(m), receiveBackward(done)});
      compute(InstructionKind::backward, done);
      if (m + 1 < microBatches)
        exchange({sendBackward(done), receiveForward(m + 1)});
      else
        exchange({sendBackward(done)});
    }
    for (int64_t m = microBatches - ahead; m < microBatches; ++m) {
      exchange({receiveBackward(m)});
      compute(InstructionKind::backward, m);
      exchange({sendBackward(m)});
    }
    return finish();
  }

private:
  using MaybeTransfer = std::optional<dist::TransferAttr>;

  MaybeTransfer transfer(bool exists, bool isSend, Direction direction, int64_t m) {
    if (!exists)
      return std::nullopt;
    return dist::TransferAttr::get(context, isSend, direction, m, m % slots);
  }
  MaybeTransfer receiveForward(int64_t m) { return transfer(stage > 0, false, Direction::forward, m); }
  MaybeTransfer sendForward(int64_t m) { return transfer(stage + 1 < stages, true, Direction::forward, m); }
  MaybeTransfer receiveBackward(int64_t m) { return transfer(stage + 1 < stages, false, Direction::backward, m); }
  MaybeTransfer sendBackward(int64_t m) { return transfer(stage > 0, true, Direction::backward, m); }

  void add(InstructionKind kind, int64_t microBatch = 0, ArrayRef<dist::TransferAttr> transfers = {}) {
    table.push_back(dist::InstructionAttr::get(context, kind, microBatch, microBatch % slots, transfers));
  }
  void compute(InstructionKind kind, int64_t microBatch) { add(kind, microBatch); }
  void exchange(std::initializer_list<MaybeTransfer> maybe) {
    SmallVector<dist::TransferAttr> transfers;
    for (const MaybeTransfer &transfer : maybe)
      if (transfer)
        transfers.push_back(*transfer);
    if (!transfers.empty())
      add(InstructionKind::exchange, 0, transfers);
  }
  SmallVector<Attribute> finish() {
    add(InstructionKind::reduce);
    add(InstructionKind::apply);
    return std::move(table);
  }

  MLIRContext *context;
  int64_t stage, stages, microBatches, slots;
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
    bool isGpipe = schedule == "gpipe";
    if (!isGpipe && schedule != "1f1b") {
      module.emitError("schedule is \"") << schedule << "\", expected gpipe or 1f1b";
      return signalPassFailure();
    }
    if (microBatches < 1) {
      module.emitError("step has ") << microBatches << " micro-batches, expected at least 1";
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    int64_t stages = mesh.getStages();
    for (int64_t stage = 0; stage < stages; ++stage) {
      int64_t slots = isGpipe ? int64_t(microBatches) : std::min<int64_t>(stages - stage, microBatches);
      TableBuilder table(&getContext(), stage, stages, microBatches, slots);
      dist::ScheduleOp::create(builder, module.getLoc(), stage, slots,
                               builder.getArrayAttr(isGpipe ? table.gpipe() : table.oneForwardOneBackward()));
    }
  }
};
} // namespace
