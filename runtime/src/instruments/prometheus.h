// Prometheus: the metrics of a run for scrapes and for node_exporter's textfile collector. What is told is kept; a
// thread of this object's own makes text of it where somebody asks, and writes the file where it has changed, once a
// second.
#ifndef HYCRT_SRC_INSTRUMENTS_PROMETHEUS_H_
#define HYCRT_SRC_INSTRUMENTS_PROMETHEUS_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/file.h"
#include "instruments/prometheus_text.h"
#include "instruments/scrape_server.h"
#include "instruments/sink.h"

namespace hycrt {

class Prometheus : public Sink {
 public:
  // Either may be empty. The file is there when this returns.
  static Result<std::unique_ptr<Prometheus>> open(const std::string& address, const std::string& textfile);
  // Writes the file a last time.
  ~Prometheus() override;

  Status step(const StepRecord& record) override;
  Status happened(const RunEvent& event) override;
  Status exchange(const ExchangeRecord& record) override;
  void setInstrumentTime(int64_t nanoseconds);

  // Where it is asked; empty: nowhere.
  std::string url() const { return server_ ? server_->url() : ""; }

 private:
  explicit Prometheus(const std::string& textfile) : textfile_(textfile) {}
  Status takeExisting() const;
  Status writeText();
  void serve();
  RunSnapshot snapshot();

  const std::string textfile_;
  std::string partial_;
  std::optional<ScrapeServer> server_;
  FileDescriptor stop_;  // becomes readable when the thread is to end
  std::mutex mutex_;
  RunSnapshot snapshot_;  // by the mutex, as what follows
  bool hasChanged_ = false;
  Status failure_;  // of the file
  std::thread thread_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_PROMETHEUS_H_
