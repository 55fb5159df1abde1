// StageProgram: the functions and the schedule of one pipeline stage, found and checked once. It has a forward and a
// backward function for each of its chunks (virtual stages).
#ifndef HYC_LIB_INTERPRETER_MESH_STAGEPROGRAM_H
#define HYC_LIB_INTERPRETER_MESH_STAGEPROGRAM_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "llvm/ADT/StringSet.h"

namespace hyc::interpreter {

struct StageProgram {
  int64_t stage = 0;
  dist::ScheduleOp schedule;
  llvm::SmallVector<FuncOp> forward, backward; ///< by virtual stage
  FuncOp reduce, apply;                        ///< like those above null where the schedule asks for none
  int64_t numSlots = 0;
  int64_t numMicroBatches = 0;

  /// Null where there is no such function or no such virtual stage.
  FuncOp compute(dist::Direction direction, int64_t virtualStage) const {
    const llvm::SmallVector<FuncOp> &functions = direction == dist::Direction::forward ? forward : backward;
    bool isThere = virtualStage >= 0 && virtualStage < static_cast<int64_t>(functions.size());
    return isThere ? functions[virtualStage] : FuncOp();
  }
};

/// The programs of all stages. Fails after a diagnostic where one is missing, where an argument or a result does not
/// say what it is, where backward does not use exactly what forward saves, or where stages differ in micro-batches.
llvm::FailureOr<llvm::SmallVector<StageProgram>> findStagePrograms(mlir::ModuleOp module, dist::MeshOp mesh);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_MESH_STAGEPROGRAM_H
