// The report at the end of a training on several ranks: which part of the steps they have waited for others, of their
// own host and of others, what the network gave of what it can, and which ranks the others wait for.
#ifndef HYCRT_SRC_RUN_TIER_REPORT_H_
#define HYCRT_SRC_RUN_TIER_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "comm/host_exchanger.h"
#include "hycrt/manifest.h"
#include "hycrt/run.h"
#include "hycrt/status.h"
#include "run/step_times.h"

namespace hycrt {

// Its lines of the log, as "event" names them.
inline constexpr char kExchangesEvent[] = "exchanges", kExchangesOfHostEvent[] = "exchanges_of_host";

// What the steps that were measured have come to on one rank.
struct RankExchanges {
  std::string host;
  double stepNs = 0, withinNs = 0, betweenNs = 0;  // a step: all of it, and waiting for ranks of this host and others
  double receivedBytes = 0, receivingNs = 0;       // a step, from other hosts
  double linkRate = 0;  // bytes a second that it got from another host before the first step; 0: not looked at
};

// Beyond these something had better be looked at.
inline constexpr double kMostWaiting = 0.2;         // of a step
inline constexpr double kLeastLinkRate = 10e9 / 8;  // bytes a second of a host
inline constexpr double kMostComputing = 1.2;       // of what is usual among the ranks of its stage
inline constexpr double kLeastExcess = 0.05;        // and of a step
inline constexpr int64_t kLeastSteps = 8;           // of which that is said

// Lines for people, those that warn behind the others; and for the log a JSON object a host, and one of all.
struct TierReport {
  std::vector<std::string> lines, records;
};
TierReport describeTiers(const std::vector<RankExchanges>& ranks, const Mesh& mesh, int64_t steps);

struct MeasuredSteps {
  int64_t count = 0;
  StepEstimate estimate;     // the plan's
  bool onOwnThread = false;  // exchanges
  double linkRate = 0;       // as RankExchanges
};

// All ranks call it; rank 0 tells.
Status reportTiers(Exchanger& exchanger, const HostExchanger& host, const StepTimes& times, const MeasuredSteps& steps,
                   const Mesh& mesh, RunEvents& events);

// Before the first step: how fast each host gets bytes from the next one, all ranks at once. Returns this rank's part;
// 0: there is one host, or nothing large enough to ask for. All ranks call it.
Result<double> measureLink(HostExchanger& host, int ranks);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_TIER_REPORT_H_
