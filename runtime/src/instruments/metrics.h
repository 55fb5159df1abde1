// The metrics of a run: each is described once, and every sink is made from the description: the log, CSV, TensorBoard,
// Prometheus, and the table of docs/instruments.md. To add one, add a row to metrics.cpp.
#ifndef HYCRT_SRC_INSTRUMENTS_METRICS_H_
#define HYCRT_SRC_INSTRUMENTS_METRICS_H_

#include <cstddef>
#include <cstdint>

#include "hycrt/exchange_record.h"
#include "hycrt/step_report.h"

namespace hycrt {

// What a value is by Prometheus' words.
enum class MetricKind {
  kGauge,
  kCounter  // never falls while the process lives
};

// What is told of a `Record`. A key or tag that is null: the metric is not shown there.
template <typename Record>
struct Metric {
  const char*
      key;  // in the log, and of the column in CSV; metrics behind each other that no record has together may share one
  const char* tag;     // in TensorBoard
  const char* series;  // in Prometheus
  const char* unit;    // of the log and CSV; "": none
  double baseUnit;     // what one such unit is in TensorBoard and Prometheus, which know seconds and bytes
  bool isWhole;        // a number without a fraction
  MetricKind kind;
  const char* meaning;
  bool (*isIn)(const Record&);
  double (*valueOf)(const Record&);
};

// What a run has come to, since the process began that tells of it.
struct RunTotals {
  int64_t steps = 0;                         // also those that were done again
  double stepSeconds = 0, lastStepTime = 0;  // the latter since 1970
  int64_t checkpoints = 0, failedCheckpoints = 0;
  double checkpointSeconds = 0;
  int64_t restarts = 0;
  double restartSeconds = 0;
  double instrumentSeconds = 0;  // in sinks, on the thread that runs the step or takes the record
};

template <typename T>
struct MetricList {
  const Metric<T>* rows;
  size_t size;
  const Metric<T>* begin() const { return rows; }
  const Metric<T>* end() const { return rows + size; }
};

// In the order in which they are written.
MetricList<StepRecord> stepMetrics();
MetricList<RunTotals> totalMetrics();
// With labels for what kind of exchange it is, and whose.
MetricList<ExchangeRecord> exchangeMetrics();

// Whether this is the first of the metrics that share a key, and so a column.
bool isColumn(const Metric<StepRecord>& metric);

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_METRICS_H_
