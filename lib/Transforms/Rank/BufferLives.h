// BufferLives: when the temporaries and records of one stage's program are alive. What its functions do with them is
// read off their ops, in which order functions run off the schedule and the entries. Time is that of
// hyc/Analysis/ArenaPlacement.h.
#ifndef HYC_LIB_TRANSFORMS_RANK_BUFFERLIVES_H
#define HYC_LIB_TRANSFORMS_RANK_BUFFERLIVES_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/ArenaPlacement.h"

#include "llvm/ADT/MapVector.h"

namespace hyc {

/// First and last position of the ops of a function that use a buffer.
struct Span {
  int64_t first = INT64_MAX, last = -1;
  bool empty() const { return last < 0; }
  void add(int64_t position) {
    first = std::min(first, position);
    last = std::max(last, position);
  }
};

/// Everything that happens to one record: where functions use it, and in which transfers it takes part.
struct RecordUses {
  rank::RecordOp record;
  llvm::SmallVector<Span> inFunction; ///< by position in BufferLives::functions
  llvm::SmallVector<rank::TransferOp, 1> transfers;

  bool isReceived();
  bool isSentBackward();
  bool takesPartIn(dist::TransferAttr step, mlir::StringAttr entry);
};

struct Temporary {
  rank::AllocOp alloc;
  mlir::StringAttr arena;
  ArenaItem item;
};

/// An instruction of the schedule or of an entry, and when it is executed: at the time points [begin, end).
struct ExecutedInstruction {
  dist::InstructionAttr instruction; ///< null: @prepare
  rank::EntryOp entry;               ///< null: the stage's schedule
  int64_t function = -1, slot = 0;   ///< that it runs, by position in BufferLives::functions; -1: none
  int64_t begin = 0, end = 0;
};

class BufferLives {
public:
  /// Changes nothing; what placement does to the program does not show here.
  BufferLives(rank::ProgramOp program, dist::ScheduleOp schedule);

  /// As in ProgramOp::getFunctionNames; @prepare, which is not among those, is the last.
  llvm::SmallVector<rank::FuncOp> functions;
  llvm::SmallVector<llvm::SmallVector<mlir::Operation *>> ops; ///< of functions, by position
  llvm::SmallVector<FunctionExecution> executions;
  std::vector<ExecutedInstruction> instructions;
  llvm::SmallVector<Temporary> temporaries;
  llvm::MapVector<mlir::StringAttr, std::pair<RecordUses, ArenaItem>> records;

private:
  void readRecords(size_t functionCount);
  void readFunction(rank::FuncOp func);
  void execute(mlir::ArrayAttr scheduled, std::optional<int64_t> index, rank::EntryOp entry);
  void executePrepare();
  void runFunction(int64_t index, int64_t slot);
  void shareSlots();

  rank::ProgramOp program;
  llvm::SmallVector<bool> isForward; // of functions
  int64_t now = 0;                   // while instructions are executed: positions so far
};

} // namespace hyc

#endif // HYC_LIB_TRANSFORMS_RANK_BUFFERLIVES_H
