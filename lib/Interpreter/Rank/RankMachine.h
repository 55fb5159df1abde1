// RankMachine: one rank that executes the rank.program of its stage, call by call, as its schedule says, until it
// waits.
#ifndef HYC_LIB_INTERPRETER_RANK_RANKMACHINE_H
#define HYC_LIB_INTERPRETER_RANK_RANKMACHINE_H

#include "Mesh/CollectiveBoard.h"
#include "Mesh/TransferBoard.h"
#include "Rank/RankCalls.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Interpreter/Interpreter.h"

#include <set>

namespace hyc::interpreter {

/// One stage's program, with its symbols looked up.
struct RankProgram {
  rank::ProgramOp op;
  dist::ScheduleOp schedule;
  int64_t numMicroBatches = 0;
  std::vector<rank::StateOp> states;
  std::vector<rank::InputOp> inputs;
  std::vector<rank::ScalarOp> scalars;
  std::vector<rank::ConstantOp> constants;
  std::vector<rank::RecordOp> records;
  std::vector<rank::TransferOp> transfers;
};

/// What one rank owns between steps.
struct RankMemory {
  explicit RankMemory(Arithmetic arithmetic) : memory(arithmetic) {}
  Memory memory;
  llvm::StringMap<AxisPosition> axes;
  /// Bytes that only temporaries use.
  struct Range {
    Arena *arena;
    int64_t begin, end;
  };
  std::vector<Range> temporaries;
};

/// Where a symbol of a program lies: its type, dense or not, at `offset` of its arena.
Extent placedRegion(Memory &memory, llvm::StringRef arena, int64_t offset, rank::BufferType type);

/// What all machines share during one step.
struct MachineStep {
  const Topology &topology;
  Arithmetic arithmetic;
  CollectiveBoard &collectives;
  TransferBoard &transfers;
  const NamedTensors &globalBatch;
  StepScalars scalars;
};

class RankMachine {
public:
  enum class Outcome { Advanced, Waits, Finished, Failed };

  RankMachine(const RankProgram &program, RankMemory &own, int64_t worldRank, MachineStep &step)
      : program(program), own(own), worldRank(worldRank), step(step) {}

  /// Before the first step: what the program keeps for the run.
  llvm::LogicalResult prepare();
  Outcome advance();
  bool isFinished() const { return position == schedule().getInstructions().size(); }
  std::string describeWait() const;

private:
  /// A function on its way, or what one repeats; shared functions stand above the one that invoked them.
  struct Activation {
    explicit Activation(mlir::Block &block, int64_t turns = 1) : block(&block), turns(turns) { begin(); }
    void begin() { op = block->empty() ? nullptr : &block->front(); }

    mlir::Block *block;
    int64_t turns, turn = 0;
    mlir::Operation *op; ///< null at the end of a turn
    llvm::DenseMap<mlir::Value, Address> addresses;
    llvm::DenseMap<mlir::Value, rank::CollectiveOp> rows;
  };
  /// One tensor of a started collective.
  struct TicketPart {
    std::shared_ptr<Collective> collective;
    Extent source, destination;
    bool leavesRest =
        false; ///< a sum in this rank's own slice of the source: what others' slices then hold is no value
  };
  struct Ticket {
    llvm::SmallVector<TicketPart, 1> parts;
    /// The first that has not completed, or null.
    const Collective *findUnfinished() const {
      for (const TicketPart &part : parts)
        if (!part.collective->isDone)
          return part.collective.get();
      return nullptr;
    }
  };
  /// A tensor on its way between arenas.
  struct Move {
    Extent source, destination;
  };
  struct Posted {
    std::shared_ptr<TransferEnd> end;
    llvm::StringMap<Extent> regions; ///< by tag
  };

  dist::ScheduleOp schedule() const { return program.schedule; }
  dist::InstructionAttr current() const {
    return llvm::cast<dist::InstructionAttr>(schedule().getInstructions()[position]);
  }
  llvm::LogicalResult begin();
  std::optional<bool> proceed(bool &moved);
  llvm::LogicalResult end();

  llvm::LogicalResult beginFunction();
  rank::FuncOp findFunction(dist::InstructionKind kind, int64_t virtualStage) const;
  void forgetTemporaries();
  void forgetRecords(dist::InstructionAttr backward);
  void forgetSent(dist::TransferAttr transfer);
  llvm::LogicalResult loadInputs(int64_t microBatch);
  std::optional<bool> runFunction(bool &moved);
  llvm::LogicalResult execute(mlir::Operation *op);
  llvm::LogicalResult enter(rank::InvokeOp op);
  void enter(rank::RepeatOp op);
  int64_t placeInTurn(rank::AtOp at) const;
  llvm::LogicalResult startCollective(rank::StartOp op);
  llvm::LogicalResult startPart(rank::StartOp op, size_t index, CollectiveStart &start, TicketPart &part);
  Extent regionOf(mlir::Value buffer) const;
  llvm::LogicalResult finishCollective(rank::WaitOp op);
  llvm::LogicalResult startMove(rank::MoveOp op);
  llvm::LogicalResult finishMove(rank::WaitOp op);
  llvm::LogicalResult beginExchange();
  llvm::LogicalResult postTransfer(dist::TransferAttr transfer);
  llvm::LogicalResult endExchange();
  Extent recordRegion(rank::RecordOp record, int64_t slot);
  mlir::InFlightDiagnostic emitError() const;

  const RankProgram &program;
  RankMemory &own;
  int64_t worldRank;
  MachineStep &step;

  size_t position = 0;
  bool isInside = false;          ///< the current instruction has begun
  std::set<llvm::StringRef> seen; ///< functions that this step has run
  bool isFirst = false;
  std::vector<Activation> stack;
  llvm::DenseMap<mlir::Value, Ticket> tickets;
  llvm::DenseMap<mlir::Value, Move> moves; ///< by ticket
  std::vector<Posted> posted;
};

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_RANK_RANKMACHINE_H
