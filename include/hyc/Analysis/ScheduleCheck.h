// ScheduleCheck: whether each stage's schedule gives every function what it takes, before any rank runs.
//
// A stage is followed through its schedule with what its slots hold: tensors that were received and not used yet, what
// forward has saved, what waits to be sent. A function that takes what no instruction has brought, a transfer of what
// nobody has computed, and what is left at the step's end are faults of the schedule, whatever other stages do; those
// are for CommunicationCheck.
//
// The surprise: what an op computes is not looked at. A sum that is left out of a function goes unnoticed here.
#ifndef HYC_ANALYSIS_SCHEDULECHECK_H
#define HYC_ANALYSIS_SCHEDULECHECK_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/LogicalResult.h"

namespace hyc {

/// Checks the schedules of a phase-4 module; on failure, one error that names stage, instruction and slot.
llvm::LogicalResult checkSchedules(mlir::ModuleOp module);

} // namespace hyc

#endif // HYC_ANALYSIS_SCHEDULECHECK_H
