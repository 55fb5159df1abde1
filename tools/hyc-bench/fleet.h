// Fleet: the processes that measure: ranks on this machine, or a hyc-bench by ssh on each host, which starts that
// host's ranks. What they tell is handed on, and where one fails all are ended.
#ifndef HYC_BENCH_FLEET_H_
#define HYC_BENCH_FLEET_H_

#include <functional>
#include <string>
#include <vector>

#include "agent.h"
#include "bench_options.h"
#include "hostfile.h"
#include "hycrt/status.h"

namespace hycbench {

// Takes the lines that ranks tell, marks included.
using TakeLine = std::function<hycrt::Status(const std::string&)>;

// The ranks [first, first + count) of `world`, on this machine.
struct RanksHere {
  int first = 0, count = 1, world = 1;
  std::string runName, token;
  std::string masterAddress;  // empty: all ranks are on this machine
  int masterPort = 0;
};
hycrt::Status runHere(const BenchOptions& options, const RanksHere& ranks, const TakeLine& take);

// The program that measures a GPU of this machine.
hycrt::Status runOnDevice(const BenchOptions& options, const TakeLine& take);

// As many ranks on each host as it has slots, which are as many on each.
hycrt::Status runOnHosts(const BenchOptions& options, const std::vector<hycrun::Host>& hosts, const TakeLine& take);

// What a hyc-bench does that another one has started by ssh: its ranks end with its standard input.
hycrt::Status runAsAgent();

}  // namespace hycbench

#endif  // HYC_BENCH_FLEET_H_
