// Exchanger: everything that passes between a rank and the others, as the run and generated code know it. One thread
// calls it. What goes on beneath is the implementation's: among hosts (host_exchanger.h), between devices by way of
// their images on the host (staged_exchanger.h), or between devices by themselves (device_exchanger.h).
#ifndef HYCRT_SRC_COMM_EXCHANGER_H_
#define HYCRT_SRC_COMM_EXCHANGER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "comm/collective_call.h"
#include "hycrt/collectives.h"
#include "hycrt/program.h"
#include "hycrt/status.h"

namespace hycrt {

// How long a rank has waited for others that had not come to an exchange, of all that it has waited.
struct Lateness {
  int64_t ns = 0;
  std::vector<int64_t> byRank;  // the one that came last
};

// Of one row of the program's tables: how often the caller has waited for it, and how long.
struct ExchangeTime {
  int64_t times = 0;
  int64_t ns = 0, lateNs = 0;  // the latter as Lateness counts
};

// What exchanges have come to so far, on this rank.
struct ExchangeCounts {
  int64_t waitedNs = 0;        // by the caller: communication that its computation did not hide; -1: hosts do not wait
  int64_t betweenHostsNs = 0;  // of these, for groups and transfers with members on other hosts
  int64_t receivedBytes = 0;   // from other hosts, on whichever thread
  int64_t receivingNs = 0;     // and for how long bytes were fetched from there, or sums on their way
};

class Exchanger {
 public:
  virtual ~Exchanger() = default;

  // As collectives.h says; `call` has been checked against the program's tables.
  virtual Result<Ticket> start(const CollectiveCall& call) = 0;
  virtual Status wait(Ticket ticket) = 0;

  // Runs the transfers together: no order among them is assumed but that of one direction between two ranks.
  virtual Status exchange(const TransferUse* uses, int count) = 0;

  // Returns when every rank has called it: what each has given, by rank, until it is called again.
  virtual Result<const uint64_t*> share(uint64_t own) = 0;
  // The same, of ranks that have nothing to say.
  Status barrier() {
    const Result<const uint64_t*> all = share(0);
    return all.ok() ? Status() : all.status();
  }

  // Says how this rank ends, and wakes all who may be waiting for it; nothing is exchanged afterwards. All ranks that
  // have finished call it together, and it tells whether they have. Also done on destruction, as a failure.
  virtual Status leave(bool finished) = 0;

  // Of a row of Program::groups; 0 where this rank is not in it.
  virtual int memberCount(int group) const = 0;

  // The text that a rank published when it was set up.
  virtual std::string catalogOf(int rank) const = 0;

  virtual ExchangeCounts counts() const = 0;

  // Null: nobody knows, as where the host does not wait.
  virtual const Lateness* lateness() const { return nullptr; }
  // Of the program's collectives, then its transfers; of several that were waited for together the first. Null as
  // above.
  virtual const std::vector<ExchangeTime>* exchangeTimes() const { return nullptr; }
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_EXCHANGER_H_
