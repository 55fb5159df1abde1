// Job: what all starts of a job's ranks have in common: the signals that hyc-run gets, what it shows and logs, and how
// a start ended. runJob starts the ranks, and where they fail starts them again from the newest checkpoint
// (--max-restarts), or the newest copy in the memory of hosts (--copy).
#ifndef HYC_RUN_JOB_H_
#define HYC_RUN_JOB_H_

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hycrt/instruments.h"
#include "hycrt/manifest.h"
#include "hycrt/memory_report.h"
#include "hycrt/options.h"
#include "hycrt/run_event.h"
#include "hycrt/sizes.h"
#include "hycrt/status.h"
#include "hycrt/step_report.h"
#include "output.h"

namespace hycrun {

// Signals are read from a descriptor, so that nothing happens inside a handler.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  hycrt::Status open();

  int fd() const { return fd_; }
  // The mask that children get back.
  const sigset_t& former() const { return former_; }
  // The next that has come; 0: none.
  int take() const;
  // Whether one that ends the run has come and is not taken yet; whether one ever has.
  bool isEndPending() const;
  bool isEndWanted() const { return hasTakenEnd_ || isEndPending(); }
  static std::string nameOf(int signal);
  // After a write to a process that is gone: the SIGPIPE of it is no word of the user's.
  static void forgetBrokenPipe();

 private:
  int fd_ = -1;
  sigset_t former_;
  mutable bool hasTakenEnd_ = false;
  sigset_t taken_;  // without those of a terminal and of a closed pipe that were ignored when hyc-run was started
};

// What the ranks tell, on the terminal, in the log and other instruments, and added up.
class Report {
 public:
  Report(const hycrt::RunOptions& options, const Signals& signals);
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  hycrt::Status open();

  // A line that a rank has sent beside its output; of an error hyc-run ends.
  hycrt::Status take(const std::string& line);
  hycrt::Status add(const hycrt::RunEvent& event);
  // Before anything else is printed.
  void clear();
  void print(FILE* to, const std::string& text) { output_.print(to, text); }
  // "hyc-run: …" on standard error.
  void say(const std::string& line);

  // Ranks are started now; what follows is of them.
  void beginStart(bool isRestart);
  bool endsEarly() const { return endsEarly_; }          // they end as they were asked to
  bool endsForLayout() const { return endsForLayout_; }  // to go on in another layout
  bool hasStepped() const { return hasStepped_; }
  // Where the ranks have written what they measured (--replan-after), once; empty: they have not.
  std::string takeMeasurement() { return std::exchange(measurement_, ""); }
  bool hasMeasurement() const { return !measurement_.empty(); }
  // What a rank or another host's hyc-run says of one; empty: nothing. And the rank that was waited for in vain; -1:
  // none.
  const std::string& failure() const { return failure_; }
  int blamedRank() const { return blamedRank_; }
  double secondsSinceProgress() const;
  hycrt::Status finishMemory(const std::string& runName);

  // Of all starts.
  int64_t lastStep() const { return lastStep_; }
  double secondsInAll() const;
  // What became of the time; of runs with checkpoints.
  hycrt::Status finish();

 private:
  const hycrt::RunOptions options_;
  Output output_;
  const bool isOnTerminal_;
  hycrt::StepDisplay display_;
  std::unique_ptr<hycrt::Instruments> instruments_;
  hycrt::RunAccount account_;
  std::vector<hycrt::MemoryRecord> memory_;  // in the order of arrival
  bool isRestart_ = false, hasStepped_ = false, endsEarly_ = false, endsForLayout_ = false;
  std::string measurement_;
  std::string failure_;
  int blamedRank_ = -1;
  int64_t lastStep_ = 0;
  int64_t startNs_ = 0, lastProgressNs_;
  const int64_t beginNs_;
};

// How a start of the ranks has ended.
struct RunEnd {
  enum class How {
    kFinished,   // trained to the end
    kAsked,      // as it was asked to: by a signal, or with a checkpoint
    kForLayout,  // the same, to go on in another layout
    kFailed      // a rank or a host failed
  };
  int status = 0;  // the process's
  How how = How::kFinished;
  std::string cause;        // of a failure, such as "rank 3 was ended by SIGKILL"
  std::string host = {};    // that failed, of several
  bool isHostLost = false;  // it cannot be reached any more
};

// Starts what `manifest` and `options` say, on one host or several, as often as it is to be; where hosts are lost, with
// another of the sizes.
hycrt::Result<int> runJob(hycrt::Manifest manifest, hycrt::RunOptions options, std::vector<hycrt::CompiledSize> sizes);

}  // namespace hycrun

#endif  // HYC_RUN_JOB_H_
