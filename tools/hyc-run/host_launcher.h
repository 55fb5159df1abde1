// HostLauncher: a job on several hosts. On each it starts a hyc-run by ssh, which starts that host's ranks (agent.h);
// what these say is passed on with the host's name, and where one host fails all are ended.
#ifndef HYC_RUN_HOST_LAUNCHER_H_
#define HYC_RUN_HOST_LAUNCHER_H_

#include <memory>
#include <string>
#include <vector>

#include "hostfile.h"
#include "hycrt/manifest.h"
#include "hycrt/memory_report.h"
#include "hycrt/options.h"
#include "hycrt/status.h"
#include "hycrt/step_report.h"
#include "rank_process.h"

namespace hycrun {

class HostLauncher {
 public:
  HostLauncher(const hycrt::Manifest& manifest, const hycrt::RunOptions& options, std::string runName);
  ~HostLauncher();

  // As Launcher::run.
  hycrt::Result<int> run();

 private:
  hycrt::Result<std::vector<Share>> place() const;
  hycrt::Status prepare();
  hycrt::Status startHost(const Share& share, const std::string& master, const std::string& token, int port);
  void watch();
  void passOn(size_t host);
  void takeRecord(const std::string& line);
  void takeSignals();
  void lookForEnds();
  void stopAll();
  bool anyRunning() const;

  const hycrt::Manifest& manifest_;
  const hycrt::RunOptions& options_;
  const std::string runName_;
  std::vector<Share> shares_;
  std::vector<RankProcess> hosts_;  // ssh's
  hycrt::StepDisplay display_;
  std::unique_ptr<hycrt::StepLog> log_;
  int signalFd_ = -1;
  sigset_t formerSignals_;
  int exitStatus_ = 0;
  bool stopping_ = false;
  int64_t firstLossMs_ = 0;  // since when it is known that a host has lost another's ranks
  std::vector<hycrt::MemoryRecord> memory_;
};

// What hyc-run does that another one has started.
int runAgent();

}  // namespace hycrun

#endif  // HYC_RUN_HOST_LAUNCHER_H_
