// HostLauncher: a job on several hosts. On each it starts a hyc-run by ssh, which starts that host's ranks (agent.h);
// what these say is passed on with the host's name, and where one host fails all are ended.
#ifndef HYC_RUN_HOST_LAUNCHER_H_
#define HYC_RUN_HOST_LAUNCHER_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "copy_hosts.h"
#include "hostfile.h"
#include "hycrt/manifest.h"
#include "hycrt/options.h"
#include "hycrt/status.h"
#include "job.h"
#include "rank_process.h"
#include "replanner.h"

namespace hycrun {

class HostLauncher {
 public:
  // Hosts of `leftOut` get no ranks. `copies` null: none are kept.
  HostLauncher(const hycrt::Manifest& manifest, const hycrt::RunOptions& options, std::string runName, Signals& signals,
               Report& report, const std::set<std::string>& leftOut, CopyHosts* copies = nullptr,
               Replanner* replanner = nullptr);
  ~HostLauncher();

  // As Launcher::run.
  hycrt::Result<RunEnd> run();

 private:
  hycrt::Result<std::vector<Share>> place() const;
  void noteSplitGroup() const;
  int meetingPort() const;
  hycrt::Status startHost(const Share& share, const std::string& master, const std::string& token, int port);
  void watch();
  void passOn(size_t host);
  void takeRecord(const std::string& line);
  void takeSignals();
  void pass(char letter);
  bool isAsWished(const RankEnd& end) const;
  const std::string& hostToBlame(size_t host) const;
  void lookForEnds();
  void lookForKeepers();
  void lose(const std::string& host, const std::string& how);
  void sayThatAllWereEnded() const;
  void stopAll();
  bool anyRunning() const;

  const hycrt::Manifest& manifest_;
  const hycrt::RunOptions& options_;
  const std::string runName_;
  const std::set<std::string>& leftOut_;
  CopyHosts* const copies_;
  Replanner* const replanner_;  // which proposes alone
  std::vector<Share> shares_;
  std::vector<RankProcess> hosts_;  // ssh's
  Signals& signals_;
  Report& report_;
  RunEnd end_;
  bool isAsked_ = false;       // to end, with a checkpoint
  bool endsAsWished_ = false;  // some host has, with 75
  bool stopping_ = false;
  int64_t firstLossMs_ = 0;  // since when it is known that a host has lost another's ranks
};

// What hyc-run does that another one has started.
int runAgent();

}  // namespace hycrun

#endif  // HYC_RUN_HOST_LAUNCHER_H_
