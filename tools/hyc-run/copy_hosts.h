// CopyHosts: the keepers of copies (hycrt/copies.h), a hyc-run on each host beside that which starts the ranks. They
// stay from one start of the ranks to the next; one that is gone is started anew, with nothing in its memory.
#ifndef HYC_RUN_COPY_HOSTS_H_
#define HYC_RUN_COPY_HOSTS_H_

#include <poll.h>

#include <map>
#include <string>
#include <vector>

#include "copy_task.h"
#include "hostfile.h"
#include "hycrt/copies.h"
#include "hycrt/options.h"
#include "hycrt/status.h"
#include "job.h"
#include "rank_process.h"

namespace hycrun {

inline constexpr char kKeeperFlag[] = "--keep-copies";

class CopyHosts {
 public:
  CopyHosts(const hycrt::RunOptions& options, Signals& signals, Report& report);
  ~CopyHosts();
  CopyHosts(const CopyHosts&) = delete;
  CopyHosts& operator=(const CopyHosts&) = delete;

  // Before the ranks are started: a keeper on each of these hosts, in whose order the ring is. The host that cannot be
  // had, or empty.
  hycrt::Result<std::string> open(const std::vector<Share>& shares);
  // The newest copy that is whole over all hosts that are there; none: there is none, and `why`.
  hycrt::CopyKey newest(std::string* why);
  // Of the ranks that are started next.
  void beginStart(const hycrt::CopyKey& resumed) {
    ++start_;
    resumed_ = resumed;
  }
  CopyTask taskFor(const std::string& host) const;
  // Where the keeper of that host listens; 0: there is none.
  int portAt(const std::string& host) const;

  // While the ranks run.
  void addPolled(std::vector<pollfd>* polled) const;
  // A host whose keeper is gone since it was last asked; empty: none.
  std::string takeLost();
  // "a at most 12.3 MiB, b …", of what they have held.
  std::string mostHeld();

 private:
  struct Keeper {
    RankProcess process;
    bool isReady = false;
    hycrt::KeeperAddress address = {};
    bool hasListed = false;
    int64_t heardMs = 0;  // when it last said anything
  };

  hycrt::Status start(const std::string& host);
  // Hears all until `isEnough` of each, or half a minute has passed without a word from those of which it is not; or
  // the user wants an end.
  template <typename IsEnough>
  void hearUntil(IsEnough isEnough);
  void hear(const std::string& host, Keeper& keeper);
  void tell(Keeper& keeper, const std::string& line);
  void ask(const char* what);
  void dropGone();
  // A host of the ring that has no keeper that is ready; empty: none.
  std::string missing() const;

  const hycrt::RunOptions& options_;
  Signals& signals_;
  Report& report_;
  const std::string job_, token_;
  int numbers_ = 0;  // of keepers that were started
  int64_t start_ = -1;
  hycrt::CopyKey resumed_;
  std::map<std::string, Keeper> keepers_;  // by host
  std::vector<std::string> ring_;          // hosts
  std::vector<hycrt::CopyHolding> holdings_;
  std::map<std::string, int64_t> mostBytes_;  // by host, of all keepers that it had
};

}  // namespace hycrun

#endif  // HYC_RUN_COPY_HOSTS_H_
