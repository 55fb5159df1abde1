// Hostfiles as DeepSpeed's users write them: a host a line, with how many ranks it takes.
//
//   worker-0 slots=4
//   worker-1 slots=4    # a comment
#ifndef HYC_RUN_HOSTFILE_H_
#define HYC_RUN_HOSTFILE_H_

#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrun {

struct Host {
  std::string name;
  std::vector<int> slots;  // which of them are used, ascending
};

// A host's name goes to ssh: letters, digits, '.', '_', '-', ':' and an '@' behind a user, and no '-' in front.
bool isHostName(const std::string& name);

// `where` is what errors call the text.
hycrt::Result<std::vector<Host>> parseHostfile(const std::string& text, const std::string& where);
hycrt::Result<std::vector<Host>> readHostfile(const std::string& path);

// "worker-0@worker-1:0,2" of --include or --exclude: whole hosts, or slots of one. At most one of the two is given.
hycrt::Status selectHosts(const std::string& include, const std::string& exclude, std::vector<Host>* hosts);

// Where ranks go: the hosts in their order, each as many as it has slots.
struct Share {
  std::string host;
  int first = 0, count = 0;
};
hycrt::Result<std::vector<Share>> shareRanks(const std::vector<Host>& hosts, int ranks);

}  // namespace hycrun

#endif  // HYC_RUN_HOSTFILE_H_
