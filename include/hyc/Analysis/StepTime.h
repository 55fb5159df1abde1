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

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <vector>

namespace hyc {

/// What one rank does in a second, and whether it exchanges while it computes. The defaults are orders of magnitude for
/// one core of a server's CPU, not measurements; a machine's own come from --machine.
struct MachineRates {
  double products = 1e11;       ///< floating-point operations of matrix products and attention, a multiply-add as two
  double narrowProducts = 4e11; ///< of those whose operands have 16 bits
  double memory = 1.3e10;       ///< bytes that kernels read and write
  double link = 4e9;            ///< bytes that it sends to other ranks
  double latency = 5e-6;        ///< seconds of an exchange or transfer, whatever it carries
  double host = 6e9;            ///< bytes copied between device and host
  double disk = 1e9;            ///< bytes read or written
  bool communicationThread = true;
};

/// Seconds of one step.
struct StageTime {
  double computation = 0; ///< kernels, and copies that they wait for
  double exposed = 0;     ///< waiting for exchanges with ranks that are there, and for the disk
  double idle = 0;        ///< waiting for other stages
  double total() const { return computation + exposed + idle; }
};

struct StepTime {
  std::vector<StageTime> stages;

  double seconds() const;
  /// Exposed and idle time of the stage's step.
  double waitingShare(size_t stage) const;
};

/// Of programs of phase 5, once their buffers are placed. None where the stages never meet, which
/// hyc-check-communication tells beforehand.
std::optional<StepTime> estimateStep(mlir::ModuleOp module, const MachineRates &rates);

} // namespace hyc

#endif // HYC_ANALYSIS_STEPTIME_H
