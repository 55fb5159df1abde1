// Replanner: another layout for a run, by what its first steps took (--replan-after). Once the ranks have written their
// measurement it has hyc-compile, which lies beside hyc-run, look for a layout while they train, tells what came of it,
// and with --replan auto has that compiled: then a job can go on in it from a checkpoint. Once in a run.
//
// What fails here is told in one line, and the run goes on as it was.
#ifndef HYC_RUN_REPLANNER_H_
#define HYC_RUN_REPLANNER_H_

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "hycrt/status.h"
#include "job.h"
#include "rank_process.h"

namespace hycrun {

class Replanner {
 public:
  // Before anything is started: what is asked for can be had. Gives the measurement its name (options->profile).
  static hycrt::Status prepare(const hycrt::Manifest& manifest, hycrt::RunOptions* options);

  // `options` asks for it; all outlive this. Ranks of several hosts (--hostfile) are only told about.
  Replanner(const hycrt::RunOptions& options, const hycrt::Manifest& manifest, const Signals& signals, Report& report);
  ~Replanner();

  // Whether ranks that start now have nothing to measure any more.
  bool hasMeasured() const { return phase_ != Phase::kWaiting; }
  // What to wait for beside the ranks.
  void addPolled(std::vector<pollfd>* polled) const;
  // Takes up what ranks and hyc-compile have said meanwhile.
  void advance();

  // The programs of a better layout are there.
  bool isReady() const { return phase_ == Phase::kReady; }
  struct Layout {
    hycrt::Manifest manifest;
    std::string flags, batchShares;
  };
  // Theirs; nothing where they cannot be run, which is told. Nothing more comes then.
  std::optional<Layout> take();

  // The ranks are over: what is being looked for is waited for, and told, unless a signal comes.
  void finish();

 private:
  enum class Phase { kWaiting, kSearching, kCompiling, kReady, kOver };

  void start(Phase phase, std::vector<std::string> words);
  void takeProposal();
  void end();
  void giveUp(const std::string& why);
  std::string folderForPrograms() const;

  const hycrt::RunOptions& options_;
  const hycrt::Manifest& manifest_;
  const Signals& signals_;
  Report& report_;
  Phase phase_ = Phase::kWaiting;
  std::optional<RankProcess> process_;  // hyc-compile
  RankEnd ending_;
  std::vector<std::string> said_, complaints_;  // its lines
  std::string folder_, flags_, batchShares_;    // of what was found
};

}  // namespace hycrun

#endif  // HYC_RUN_REPLANNER_H_
