// StepTimes: what steps have taken since the second one began, and what they have waited and received, without what is
// done between them: checkpoints, evaluations, comparisons.
#ifndef HYCRT_SRC_RUN_STEP_TIMES_H_
#define HYCRT_SRC_RUN_STEP_TIMES_H_

#include <cstdint>

#include "base/clock.h"
#include "comm/exchanger.h"

namespace hycrt {

class StepTimes {
 public:
  // The second step begins: the first one warms everything up.
  void begin(const Exchanger& exchanger) { from_ = {monotonicNs(), exchanger.counts()}; }

  int64_t nanoseconds() const { return monotonicNs() - from_.ns; }
  ExchangeCounts counts(const Exchanger& exchanger) const { return difference(exchanger.counts(), from_.counts); }

  // What happens as long as one lives is no part of a step.
  class Between {
   public:
    Between(StepTimes& times, const Exchanger& exchanger)
        : times_(times), exchanger_(exchanger), begin_{monotonicNs(), exchanger.counts()} {}
    ~Between() {
      const ExchangeCounts now = exchanger_.counts();
      Mark& from = times_.from_;
      from.ns += nanoseconds();
      from.counts.waitedNs += now.waitedNs - begin_.counts.waitedNs;
      from.counts.betweenHostsNs += now.betweenHostsNs - begin_.counts.betweenHostsNs;
      from.counts.receivedBytes += now.receivedBytes - begin_.counts.receivedBytes;
      from.counts.receivingNs += now.receivingNs - begin_.counts.receivingNs;
    }
    Between(const Between&) = delete;
    Between& operator=(const Between&) = delete;

    int64_t nanoseconds() const { return monotonicNs() - begin_.ns; }

   private:
    StepTimes& times_;
    const Exchanger& exchanger_;
    const struct {
      int64_t ns;
      ExchangeCounts counts;
    } begin_;
  };

 private:
  struct Mark {
    int64_t ns = 0;
    ExchangeCounts counts;
  };
  static ExchangeCounts difference(const ExchangeCounts& a, const ExchangeCounts& b) {
    return {a.waitedNs - b.waitedNs, a.betweenHostsNs - b.betweenHostsNs, a.receivedBytes - b.receivedBytes,
            a.receivingNs - b.receivingNs};
  }

  Mark from_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_STEP_TIMES_H_
