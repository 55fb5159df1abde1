// Which of a folder's sizes (hycrt/sizes.h) a job takes: what --ranks says, else what the hosts hold, else the largest.
#ifndef HYC_RUN_SIZES_H_
#define HYC_RUN_SIZES_H_

#include <set>
#include <string>
#include <vector>

#include "hostfile.h"
#include "hycrt/options.h"
#include "hycrt/sizes.h"
#include "hycrt/status.h"

namespace hycrun {

// Of --hostfile, --include and --exclude, without those that are left out.
hycrt::Result<std::vector<Host>> hostsOf(const hycrt::RunOptions& options, const std::set<std::string>& leftOut);
int64_t slotsOf(const std::vector<Host>& hosts);

// The folder with the programs to start; OUT itself where it has no sizes.
hycrt::Result<std::string> folderFor(const hycrt::RunOptions& options, const std::vector<hycrt::CompiledSize>& sizes,
                                     const std::set<std::string>& leftOut);

// --as-rank: becomes the program that the launcher's rank has; returns only with an error.
hycrt::Status becomeRank(const hycrt::RunOptions& options, const std::vector<hycrt::CompiledSize>& sizes);

}  // namespace hycrun

#endif  // HYC_RUN_SIZES_H_
