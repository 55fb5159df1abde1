// Sink: one of the places that a run's metrics go to.
#ifndef HYCRT_SRC_INSTRUMENTS_SINK_H_
#define HYCRT_SRC_INSTRUMENTS_SINK_H_

#include "hycrt/exchange_record.h"
#include "hycrt/run_event.h"
#include "hycrt/status.h"
#include "hycrt/step_report.h"

namespace hycrt {

// On one thread. A step must not allocate.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Status step(const StepRecord& record) = 0;
  virtual Status happened(const RunEvent&) { return {}; }
  virtual Status exchange(const ExchangeRecord&) { return {}; }
};

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_SINK_H_
