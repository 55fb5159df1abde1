// The estimate of a step's time as people read it.
#ifndef HYC_LIB_DRIVER_REPORT_TIMEREPORT_H
#define HYC_LIB_DRIVER_REPORT_TIMEREPORT_H

#include "hyc/Analysis/StepTime.h"

#include <string>

namespace hyc {

/// A step as it is with a communication thread, and without one.
struct TimeEstimate {
  MachineRates rates;
  StepTime overlapped, inTurn;
};

/// Both estimates of programs of phase 5; none where their stages never meet.
std::optional<TimeEstimate> estimateTime(mlir::ModuleOp module, const MachineRates &rates);

/// A row a stage, the rates, and the share that ranks wait.
std::string reportTime(const TimeEstimate &estimate);

/// "step: about 12.3 ms, …": one line for the terminal; empty for one rank that waits for nothing.
std::string summarizeTime(const TimeEstimate &estimate);

} // namespace hyc

#endif // HYC_LIB_DRIVER_REPORT_TIMEREPORT_H
