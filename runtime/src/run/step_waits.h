// StepWaits: what a rank has waited for others in one step, and for whom.
#ifndef HYCRT_SRC_RUN_STEP_WAITS_H_
#define HYCRT_SRC_RUN_STEP_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/exchanger.h"
#include "hycrt/step_report.h"

namespace hycrt {

class StepWaits {
 public:
  // The first call makes room for what later ones keep: a step allocates nothing.
  void begin(const Exchanger& exchanger) {
    waitedNs_ = exchanger.counts().waitedNs;
    if (const Lateness* const late = exchanger.lateness()) before_ = *late;
  }

  void tell(const Exchanger& exchanger, StepRecord* record) const {
    if (waitedNs_ < 0) return;
    record->exchangeMilliseconds = static_cast<double>(exchanger.counts().waitedNs - waitedNs_) * 1e-6;
    const Lateness* const late = exchanger.lateness();
    if (!late) return;
    record->lateMilliseconds = static_cast<double>(late->ns - before_.ns) * 1e-6;
    int64_t longest = 0;
    for (size_t i = 0; i < before_.byRank.size(); ++i) {
      const int64_t ns = late->byRank[i] - before_.byRank[i];
      if (ns <= longest) continue;
      longest = ns;
      record->lateRank = static_cast<int64_t>(i);
    }
  }

 private:
  int64_t waitedNs_ = -1;
  Lateness before_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_STEP_WAITS_H_
