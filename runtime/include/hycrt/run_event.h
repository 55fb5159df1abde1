// What happens to a run beside its steps: a JSON object per line for programs, as part of the log of steps, and what
// it all came to.
//
//   {"event":"checkpoint","step":200,"cause":"--checkpoint-every 20","seconds":0.02,"path":"runs/a/step-200",
//    "written":0.61,"gone_on":0.58}
#ifndef HYCRT_RUN_EVENT_H_
#define HYCRT_RUN_EVENT_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "hycrt/status.h"

namespace hycrt {

struct StepRecord;  // step_report.h

struct RunEvent {
  enum class Kind {
    kResume,            // the states are a checkpoint's
    kCheckpoint,        // one was written
    kCheckpointFailed,  // one could not be written, and the run goes on
    kVerify,            // what ranks hold alike was compared
    kEnd,               // the run ends before its last step, as it was asked to
    kFailure,           // a rank or a host failed; what a rank, or hyc-run of another host, tells hyc-run; not in a log
    kRestart,           // hyc-run starts the ranks again; `step` is where they go on
    kResize,            // the same, with another number of ranks
    kCopy,              // a copy was made in the memory of other hosts
    kCopyFailed,        // one could not be made, and the run goes on
    kMeasure,           // what the first steps took is written (--replan-after)
    kProposal,          // hyc-run tells whether another layout is better by it; `path`: of its programs, where they are
    kRelayout           // hyc-run starts the ranks of another layout, which go on from a checkpoint
  };
  Kind kind = Kind::kCheckpoint;
  int64_t step = 0;    // steps that are over
  std::string cause;   // why: the option, the signal, what failed
  double seconds = 0;  // what it has cost: of a checkpoint, for how long training has waited for it
  std::string path;    // of a checkpoint, a measurement, a compiled folder
  int rank = -1;       // of a failure: that which the one who tells of it has waited for; -1: none
  double written = 0;  // of a checkpoint: from its begin until the disk had all of it
  double goneOn = 0;   // and the time of the steps that were made before it is told, which going back to it does again
};

std::string toJson(const RunEvent& event);
Result<RunEvent> parseRunEvent(std::string_view json);
// Whether a line is one, and no record of a step.
bool isRunEvent(std::string_view json);
// Whether a text begins as one of a known kind, or is too short to tell.
bool isBeginOfRunEvent(std::string_view text);
// Whether a line is for the log alone: what RunEvents::record is given.
bool isRunRecord(std::string_view json);

// Adds up what becomes of a run's time. A step that has to be done again was lost.
class RunAccount {
 public:
  void add(const StepRecord& record);
  void add(const RunEvent& event);
  // Of a restart: from the start of the ranks to the begin of their first step.
  void addStart(double seconds) { restartSeconds_ += seconds - lastResume_; }

  // Of `seconds` in all:
  //   time: 95.3 s; steps 93.1 s (97.7 %), 3 checkpoints 1.2 s, lost 0.9 s to 1 restart (SIGKILL: 1), the rest 0.1 s
  std::string toLine(double seconds) const;
  // {"event":"report","seconds":95.3,"step_seconds":93.1,"useful":0.977,"checkpoints":3,…,"causes":{"SIGKILL":1}}
  std::string toJson(double seconds) const;

 private:
  double useful_ = 0, evaluations_ = 0, verifications_ = 0, checkpointSeconds_ = 0, redone_ = 0, restartSeconds_ = 0;
  double resumeSeconds_ = 0, lastResume_ = 0;
  double copySeconds_ = 0;
  int64_t copies_ = 0, failedCopies_ = 0;
  int64_t checkpoints_ = 0, failedCheckpoints_ = 0, verified_ = 0, restarts_ = 0, resizes_ = 0;
  std::map<int64_t, double> usefulAt_;  // by step: what had been useful when it was saved
  // What was useful after each of the last steps, at its number's place: nothing is allocated in a step.
  struct After {
    int64_t step = -1;
    double useful = 0;
  };
  std::array<After, 64> lately_;
  After& afterStep(int64_t step) { return lately_[static_cast<size_t>(step) % lately_.size()]; }
  std::map<std::string, int64_t> causes_;
};

}  // namespace hycrt

#endif  // HYCRT_RUN_EVENT_H_
