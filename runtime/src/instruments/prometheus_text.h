// prometheusText: the state of a run in Prometheus' text format 0.0.4, as a server of scrapes gives it and
// node_exporter reads it from a file. Not by prometheus-cpp: every compiled program would have to be linked with it,
// since rank 0 tells of a run where no hyc-run does, and a change of a metric takes locks and may allocate there.
#ifndef HYCRT_SRC_INSTRUMENTS_PROMETHEUS_TEXT_H_
#define HYCRT_SRC_INSTRUMENTS_PROMETHEUS_TEXT_H_

#include <string>
#include <vector>

#include "hycrt/step_report.h"
#include "instruments/metrics.h"

namespace hycrt {

// What was told last. A record with step 0: none was.
struct RunSnapshot {
  StepRecord step;        // or, of a run that only evaluates, batch
  StepRecord evaluation;  // between steps
  std::vector<ExchangeRecord> exchanges;
  RunTotals totals;
};

std::string prometheusText(const RunSnapshot& snapshot);

// Whether a file's first bytes are those of such a text.
bool isPrometheusText(const std::string& start);

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_PROMETHEUS_TEXT_H_
