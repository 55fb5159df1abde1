// Launcher: starts all ranks of a job, passes on what they say, and ends them all when one fails or a signal asks for
// it.
#ifndef HYC_RUN_LAUNCHER_H_
#define HYC_RUN_LAUNCHER_H_

#include <memory>
#include <string>
#include <vector>

#include "copy_task.h"
#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "hycrt/status.h"
#include "job.h"
#include "rank_process.h"
#include "replanner.h"

namespace hycrun {

// The ranks that one host has of a job on several, and how they meet the others.
struct HostTask {
  int first = 0, count = 0;
  std::string masterAddress, token;
  int masterPort = 0;
  CopyTask copies = {};
};

class Launcher {
 public:
  // `runName` is one that no other run has: where the ranks meet, and part of the names of what they are writing. With
  // a task only its ranks are started, until standard input ends, and records go to standard output (agent.h). With
  // a replanner that has another layout the ranks are asked to end for it.
  Launcher(const hycrt::Manifest& manifest, const hycrt::RunOptions& options, std::string runName, Signals& signals,
           Report& report, const HostTask* task = nullptr, Replanner* replanner = nullptr);
  ~Launcher();

  // From the first process to the end of the last. The exit status: 0, the first failing rank's, 75 where the ranks end
  // as they were asked to, or 128 + the signal that ended the launcher's work. An error only where the job could not be
  // started.
  hycrt::Result<RunEnd> run();

 private:
  hycrt::Status prepare();
  hycrt::Status checkProgram();
  hycrt::Status startRanks();
  RankCommand commandFor(int rank) const;
  std::vector<std::string> argumentsFor(int rank) const;
  std::vector<std::string> environmentFor(int rank) const;

  void watch();
  void passOn(int rank);
  void takeRecords();
  void takeSignals();
  void pass(int signal);
  void lookForLayout();
  void lookForEnds();
  bool isAsWished(const RankEnd& end) const;
  void reportFailure(int rank, const RankEnd& end);
  void stopAll();
  void killAll();
  void reapAll();
  void lookAtInput();
  bool anyRunning() const;

  const HostTask* const task_;
  Replanner* const replanner_;
  const int first_, count_;  // the ranks of this host
  const hycrt::Manifest& manifest_;
  const hycrt::RunOptions& options_;
  std::vector<RankProcess> ranks_;
  Signals& signals_;
  Report& report_;
  std::string runName_;
  std::string token_;
  int recordRead_ = -1;
  int recordWrite_ = -1;
  LineReader records_;
  int failedRank_ = -1;  // only its lines are passed on from then on
  RunEnd end_;
  bool isAsked_ = false;    // to end, with a checkpoint
  bool endsEarly_ = false;  // the ranks say that they do
  bool asksForLayout_ = false;
  bool stopping_ = false;
};

}  // namespace hycrun

#endif  // HYC_RUN_LAUNCHER_H_
