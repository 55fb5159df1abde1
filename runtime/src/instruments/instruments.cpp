// Opening what is asked for, and telling all of it.
#include "hycrt/instruments.h"

#include "base/clock.h"
#include "hycrt/options.h"
#include "hycrt/run_event.h"
#include "hycrt/step_report.h"
#include "instruments/csv_file.h"
#include "instruments/metrics.h"
#include "instruments/prometheus.h"
#include "instruments/sink.h"
#include "instruments/tensorboard_folder.h"

namespace hycrt {
namespace {

// A cell of Markdown.
std::string code(const char* name) { return name ? "`" + std::string(name) + "`" : ""; }

// Metrics that are shown alike are one row: an evaluation's, between steps and by itself.
template <typename Record>
std::string rowsOf(MetricList<Record> metrics) {
  std::string rows;
  for (const Metric<Record>& metric : metrics) {
    rows += "| " + code(metric.key) + " | " + code(metric.tag) + " | " + code(metric.series) + " | " + metric.unit +
            " | " + metric.meaning + " |\n";
  }
  return rows;
}

}  // namespace

Instruments::Instruments() = default;
Instruments::~Instruments() = default;

Result<std::unique_ptr<Instruments>> Instruments::open(const RunOptions& options) {
  std::unique_ptr<Instruments> made(new Instruments);
  const bool goesOn = !options.resume.empty() && !options.evaluate;  // an evaluation tells of batches, not of steps
  if (!options.csv.empty()) {
    Result<std::unique_ptr<CsvFile>> csv =
        CsvFile::open(options.csv, goesOn ? CsvFile::Mode::kGoesOn : CsvFile::Mode::kAnew);
    if (!csv.ok()) return csv.status();
    made->sinks_.push_back(std::move(*csv));
  }
  if (!options.tensorboard.empty()) {
    Result<std::unique_ptr<TensorBoardFolder>> events = TensorBoardFolder::open(options.tensorboard);
    if (!events.ok()) return events.status();
    made->sinks_.push_back(std::move(*events));
  }
  if (!options.prometheus.empty() || !options.prometheusTextfile.empty()) {
    Result<std::unique_ptr<Prometheus>> prometheus = Prometheus::open(options.prometheus, options.prometheusTextfile);
    if (!prometheus.ok()) return prometheus.status();
    made->prometheus_ = prometheus->get();
    made->sinks_.push_back(std::move(*prometheus));
  }
  if (!options.logFile.empty()) {
    Result<std::unique_ptr<StepLog>> log =
        StepLog::open(options.logFile, goesOn ? StepLog::Mode::kAppend : StepLog::Mode::kAnew);
    if (!log.ok()) return log.status();
    made->log_ = std::move(*log);
  }
  return made;
}

Status Instruments::step(const StepRecord& record) {
  const int64_t begin = monotonicNs();
  if (log_) HYCRT_RETURN_IF_ERROR(log_->append(record));
  for (const std::unique_ptr<Sink>& sink : sinks_) HYCRT_RETURN_IF_ERROR(sink->step(record));
  nanoseconds_ += monotonicNs() - begin;
  if (prometheus_) prometheus_->setInstrumentTime(nanoseconds_);
  return {};
}

Status Instruments::happened(const RunEvent& event) {
  // Of starts that come to nothing the log of a run before is not emptied.
  const bool isOfStart = event.kind == RunEvent::Kind::kRestart || event.kind == RunEvent::Kind::kResize;
  if (log_) HYCRT_RETURN_IF_ERROR(isOfStart ? log_->appendBehind(toJson(event)) : log_->append(toJson(event)));
  for (const std::unique_ptr<Sink>& sink : sinks_) HYCRT_RETURN_IF_ERROR(sink->happened(event));
  return {};
}

Status Instruments::exchange(const ExchangeRecord& record) {
  const int64_t begin = monotonicNs();
  for (const std::unique_ptr<Sink>& sink : sinks_) HYCRT_RETURN_IF_ERROR(sink->exchange(record));
  nanoseconds_ += monotonicNs() - begin;
  return {};
}

std::string Instruments::url() const { return prometheus_ ? prometheus_->url() : ""; }

Status Instruments::log(const std::string& line) { return log_ ? log_->append(line) : Status(); }

Status Instruments::report(const std::string& line) { return log_ ? log_->appendBehind(line) : Status(); }

std::string metricsTable() {
  return "| log, CSV | TensorBoard | Prometheus | unit in the log | what it is |\n|---|---|---|---|---|\n" +
         rowsOf(stepMetrics()) + rowsOf(exchangeMetrics()) + rowsOf(totalMetrics());
}

}  // namespace hycrt
