// StageProgram: the functions and the schedule of one pipeline stage, found and checked once.
#ifndef HYC_LIB_INTERPRETER_STAGEPROGRAM_H
#define HYC_LIB_INTERPRETER_STAGEPROGRAM_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "llvm/ADT/StringSet.h"

namespace hyc::interpreter {

struct StageProgram {
  int64_t stage = 0;
  dist::ScheduleOp schedule;
  FuncOp forward, backward, reduce, apply; ///< null where there is none and the schedule asks for none
  int64_t numSlots = 0;
  int64_t numMicroBatches = 0;

  FuncOp compute(dist::Direction direction) const { return direction == dist::Direction::forward ? forward : backward; }
};

/// The programs of all stages. Fails after a diagnostic where one is missing, where an argument or a result does not
/// say what it is, where backward does not use exactly what forward saves, or where stages differ in micro-batches.
llvm::FailureOr<llvm::SmallVector<StageProgram>> findStagePrograms(mlir::ModuleOp module, dist::MeshOp mesh);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_STAGEPROGRAM_H
