// StepTime: how long a step takes, and for how much of it ranks wait, on a machine that is described by a few rates.
//
// The schedule is executed with a clock a stage: kernels take what their operations or their bytes take, whichever is
// longer (the roofline of Williams et al. 2009); an exchange takes its latency and what a ring that moves least sends;
// a transfer between stages begins when both sides have come to it. With a communication thread, exchanges progress
// while kernels run, one after the other. The ranks of a stage are alike, so one clock stands for all.
//
// The surprise: two kinds of waiting are told apart. Exposed communication is what a better overlap could hide; a stage
// that idles waits for another one to compute, which is the pipeline's bubble.
#ifndef HYC_ANALYSIS_STEPTIME_H
#define HYC_ANALYSIS_STEPTIME_H

#include "hyc/Analysis/MachineRates.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <optional>
#include <vector>

namespace hyc {

namespace dist {
class ScheduleOp;
} // namespace dist
namespace rank {
class ProgramOp;
} // namespace rank

/// Seconds of one step.
struct StageTime {
  double computation = 0; ///< kernels, and copies that they wait for
  double exposed = 0;     ///< waiting for exchanges with ranks that are there, and for the disk
  double idle = 0;        ///< waiting for other stages
  int64_t started = 0;    ///< kernels and exchanges that a thread starts one by one
  int64_t kernels = 0;    ///< that were computed
  double launching = 0;   ///< of `computation`, kernels that take what starting any takes
  double total() const { return computation + exposed + idle; }
};

/// When a stage executes an instruction of its schedule: in seconds since the step began, and for how long.
struct InstructionTime {
  double begin = 0;
  StageTime time;
};

struct StepTime {
  std::vector<StageTime> stages;
  std::vector<std::vector<InstructionTime>> instructions; ///< of each stage, in the order of its schedule

  double seconds() const;
  /// Exposed and idle time of the stage's step.
  double waitingShare(size_t stage) const;
};

/// Of programs of phase 5, once their buffers are placed. None where the stages never meet, which
/// hyc-check-communication tells beforehand.
std::optional<StepTime> estimateStep(mlir::ModuleOp module, const MachineRates &rates);

/// One call of a function, or an exchange that it starts, on its own.
struct OpTime {
  std::string function; ///< "forward"
  std::string what;     ///< the kernel, or the kind of the exchange: "gemm", "all_reduce"
  std::string id;       ///< of the op that it was made of; empty for none
  bool isExchange = false;
  TimeBound bound = TimeBound::Memory;
  double seconds = 0;               ///< of one execution
  double operations = 0, bytes = 0; ///< floating-point operations; bytes read and written, or sent
  int64_t timesPerStep = 0;
};

/// What each function of the schedule calls, in program order; what it invokes several times stands there as often.
std::vector<OpTime> estimateOps(rank::ProgramOp program, dist::ScheduleOp schedule, const MachineRates &rates);

/// One execution of each function that instructions of the schedule call, by its name, while no other rank is late.
std::map<std::string, StageTime> estimateFunctions(rank::ProgramOp program, const MachineRates &rates);

} // namespace hyc

#endif // HYC_ANALYSIS_STEPTIME_H
