// The hosts of a job, asked by ssh: a hyc-check on each tells what it has, when it is, and whom it reaches.
#ifndef HYC_CHECK_INSPECTION_H_
#define HYC_CHECK_INSPECTION_H_

#include <string>
#include <vector>

#include "check_options.h"
#include "facts.h"
#include "hostfile.h"
#include "reach.h"

namespace hyccheck {

struct HostReport {
  std::string host; // as the hostfile calls it
  int slots = 0;
  std::string error; // not empty: it was not asked, and why; nothing of what follows is known
  Facts facts;
  // Its clock before this one's, known to as many seconds as `clockError`.
  double clock = 0, clockError = 0;
  std::string listenError; // not empty: nobody can reach it, and why
  std::vector<Attempt> attempts;
};

// What a job finds: this machine alone, under the name that it gives itself, or the hosts in the file's order.
struct Inspection {
  bool hasHosts = false;
  std::vector<HostReport> hosts;
};

// This machine.
Inspection inspectHere();
// All at once. An error where there is nobody to ask; a host that does not answer says so in its report.
hycrt::Result<Inspection> inspectHosts(const CheckOptions &options, const std::vector<hycrun::Host> &hosts);

// What a hyc-check does that another one has started by ssh; the exit status.
int runAsAgent();

} // namespace hyccheck

#endif // HYC_CHECK_INSPECTION_H_
