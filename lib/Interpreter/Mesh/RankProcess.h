// RankProcess: one rank on its way through the schedule of its stage. It runs until it has to wait, so that all ranks
// of a mesh can take turns in one thread.
//
// A slot holds the record of one micro-batch of one chunk: what was received for it, what forward saved, what is still
// to be sent. Everything in it is used exactly once; a slot that is filled again too early, or not emptied, is a
// diagnostic.
#ifndef HYC_LIB_INTERPRETER_MESH_RANKPROCESS_H
#define HYC_LIB_INTERPRETER_MESH_RANKPROCESS_H

#include "Frame.h"
#include "Mesh/CollectiveBoard.h"
#include "Mesh/StageProgram.h"
#include "Mesh/TransferBoard.h"
#include "hyc/Interpreter/Interpreter.h"

namespace hyc::interpreter {

/// What all ranks share during one step.
struct StepContext {
  const Topology &topology;
  CollectiveBoard &collectives;
  TransferBoard &transfers;
  const NamedTensors &globalBatch;
  StepScalars scalars;
};

class RankProcess {
public:
  enum class Outcome { Advanced, Waits, Finished, Failed };

  RankProcess(const StageProgram &program, Device &device, int64_t worldRank, StepContext &step)
      : program(program), device(device), worldRank(worldRank), step(step) {}

  /// Runs as far as possible. `Advanced` and `Waits` both leave the rank waiting; the former did something first.
  Outcome advance();

  /// What the rank waits for, for the diagnostic of a deadlock.
  std::string describeWait() const;
  bool isFinished() const { return position == schedule().getInstructions().size(); }
  /// Fails, after a diagnostic, where something was saved, sent or started and never used.
  llvm::LogicalResult checkNothingIsLeft() const;

private:
  /// What an instruction or a transfer works on: one micro-batch of one of the stage's chunks.
  struct Work {
    int64_t virtualStage, microBatch;
    template <typename Attr> static Work of(Attr attr) { return {attr.getVirtualStage(), attr.getMicroBatch()}; }
    bool operator==(const Work &other) const {
      return virtualStage == other.virtualStage && microBatch == other.microBatch;
    }
    bool operator!=(const Work &other) const { return !(*this == other); }
    /// "micro-batch 2", "micro-batch 2 of virtual stage 1".
    std::string describe() const;
  };
  /// Tensors that cross to or from a neighbour.
  struct Parcel {
    Work work;
    NamedTensors tensors;
  };
  struct Slot {
    std::optional<Parcel> saved;
    std::optional<Parcel> received[2], toSend[2]; ///< by direction
  };

  dist::ScheduleOp schedule() const { return program.schedule; }
  dist::InstructionAttr current() const {
    return llvm::cast<dist::InstructionAttr>(schedule().getInstructions()[position]);
  }
  bool isInsideInstruction() const { return frame || !posted.empty(); }

  llvm::LogicalResult begin(dist::InstructionAttr instruction);
  /// Whether the instruction has ended; nothing after a failure. `moved` tells whether anything was done.
  std::optional<bool> proceed(bool &moved);
  std::optional<bool> runFrame(bool &moved);
  llvm::LogicalResult startCollective(dist::ExchangeOpInterface op);
  llvm::LogicalResult end(dist::InstructionAttr instruction);

  llvm::LogicalResult beginCompute(dist::InstructionAttr instruction, dist::Direction direction);
  llvm::FailureOr<Tensor> takeArgument(FuncOp function, unsigned index, const Slot &slot, dist::Direction direction,
                                       int64_t microBatch);
  llvm::LogicalResult endCompute(dist::InstructionAttr instruction, dist::Direction direction);
  llvm::LogicalResult beginExchange(dist::InstructionAttr instruction);
  llvm::LogicalResult beginApply();
  llvm::FailureOr<Tensor> localInput(FuncOp function, unsigned index, llvm::StringRef name, int64_t microBatch) const;
  mlir::InFlightDiagnostic emitError() const;

  const StageProgram &program;
  Device &device;
  int64_t worldRank;
  StepContext &step;

  size_t position = 0;
  std::optional<Frame> frame; ///< of the function that the current instruction runs
  llvm::DenseMap<mlir::Value, std::shared_ptr<Collective>> pending;
  llvm::DenseMap<mlir::Value, Tensor> copied;       ///< on its way between memories
  std::vector<std::shared_ptr<TransferEnd>> posted; ///< of the current exchange
  std::map<int64_t, Slot> slots;
};

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_MESH_RANKPROCESS_H
