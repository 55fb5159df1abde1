// Instruments: where the metrics of a run go beside the terminal: the log, CSV, TensorBoard, Prometheus. Whoever shows
// a run has one: hyc-run, or rank 0 where another launcher has started it. What metrics there are is described once
// (src/instruments/metrics.cpp).
#ifndef HYCRT_INSTRUMENTS_H_
#define HYCRT_INSTRUMENTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

class Prometheus;
class Sink;
class StepLog;
struct ExchangeRecord;
struct RunEvent;
struct RunOptions;
struct StepRecord;

// On one thread.
class Instruments {
 public:
  // What `options` ask for. Those of a run that is resumed go on where they are.
  static Result<std::unique_ptr<Instruments>> open(const RunOptions& options);
  ~Instruments();
  Instruments(const Instruments&) = delete;
  Instruments& operator=(const Instruments&) = delete;

  // A step or an evaluation is over. Allocates nothing.
  Status step(const StepRecord& record);
  Status happened(const RunEvent& event);
  // Allocates nothing but where a kind and cause come for the first time.
  Status exchange(const ExchangeRecord& record);
  // Of the log alone: a line without its end.
  Status log(const std::string& line);
  // The same of a line about the whole run: where nothing was told of it, this is not either.
  Status report(const std::string& line);

  // Where Prometheus may ask; empty: nowhere.
  std::string url() const;

  // What step() has taken so far.
  int64_t nanoseconds() const { return nanoseconds_; }

 private:
  Instruments();

  std::unique_ptr<StepLog> log_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  Prometheus* prometheus_ = nullptr;  // one of them, or none
  int64_t nanoseconds_ = 0;
};

// The table of metrics in docs/instruments.md.
std::string metricsTable();

}  // namespace hycrt

#endif  // HYCRT_INSTRUMENTS_H_
