// Interruption: when a run is to write a checkpoint between two steps that it would not write by itself, and whether it
// ends then: signals, and the time that it has.
#ifndef HYCRT_SRC_RUN_INTERRUPTION_H_
#define HYCRT_SRC_RUN_INTERRUPTION_H_

#include <cstdint>
#include <string>

#include "hycrt/options.h"
#include "hycrt/run.h"
#include "hycrt/status.h"

namespace hycrt {

// Has signals that end any other process end this one where it is the first of a container.
void takeSignalsOfFirstProcess();
// From now on SIGUSR2 asks for a checkpoint, and is nothing to end a process for.
void takeCheckpointSignal();
// And SIGTERM for one and the end. A second one ends the process at once, or is nothing: where hyc-run passes it on,
// and whoever ends all processes of a job sends it as well.
enum class SecondEnd { kAtOnce, kIgnored };
void takeEndSignal(SecondEnd second);
// And relayoutSignal() for one and the end, to go on in another layout.
void takeRelayoutSignal();
// What signals have asked for since the last call, as RunWish.
uint32_t takeSignalledWishes();

// How long a run may go on. A checkpoint has to fit in, too: what it and a step will take is estimated by what the
// longest has taken, and before the first checkpoint by the bytes of the states.
class TimeLimit {
 public:
  // By --time-limit, from now on, and by SLURM_JOB_END_TIME.
  static Result<TimeLimit> of(const RunOptions& options, int64_t stateBytes);

  void stepTook(double seconds) { step_ = seconds > step_ ? seconds : step_; }
  void checkpointTook(double seconds);
  void evaluationTook(double seconds) { evaluation_ = seconds > evaluation_ ? seconds : evaluation_; }
  // Whether a checkpoint has to be begun now, perhaps after the end of another.
  bool isUp(bool isWriting) const { return isUpIn(0, isWriting); }
  // Whether it would not be so after an evaluation as long as the longest so far.
  bool fitsEvaluation(bool isWriting) const { return !isUpIn(evaluation_, isWriting); }

 private:
  bool isUpIn(double seconds, bool isWriting) const;

  int64_t endNs_ = -1;  // monotonicNs; -1: there is none
  double step_ = 0, checkpoint_ = 0, evaluation_ = 0;
  bool hasWritten_ = false;
};

// Why a checkpoint is written: what ranks wish together, else --checkpoint-every, or that it was the last step.
std::string causeOfCheckpoint(uint32_t wishes, const RunOptions& options, bool isLast);
// Why a run ends before its last step.
std::string causeOfEnd(uint32_t wishes);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_INTERRUPTION_H_
