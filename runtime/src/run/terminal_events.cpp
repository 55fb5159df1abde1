// Lines, records and errors on their way out.
#include "run/terminal_events.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/clock.h"
#include "base/launchers.h"
#include "base/log_level.h"
#include "base/whereabouts.h"
#include "hycrt/error_file.h"
#include "hycrt/printable.h"
#include "run/interruption.h"

namespace hycrt {

static constexpr int kLauncherGraceSeconds = 5;

static bool underHycRun() { return !variable(kRendezvousVariable).empty(); }

TerminalEvents::TerminalEvents(const Environment& environment, const RunOptions& options)
    : environment_(environment),
      options_(options),
      hasCheckpoints_(!options.checkpoint.empty() || !options.resume.empty()),
      beginNs_(monotonicNs()) {
  if (!options.checkpoint.empty()) takeCheckpointSignal();
  takesEndSignal_ = !options.checkpoint.empty();
}

// Before that there is nothing to save.
Status TerminalEvents::begin() {
  if (takesEndSignal_) takeEndSignal(underHycRun() ? SecondEnd::kIgnored : SecondEnd::kAtOnce);
  if (takesEndSignal_) takeRelayoutSignal();
  if (environment_.recordFd >= 0) {
    pipe_.reset(environment_.recordFd);
    return {};
  }
  if (environment_.rank != 0) return {};
  display_ = std::make_unique<StepDisplay>(stdout);
  Result<std::unique_ptr<Instruments>> instruments = Instruments::open(options_);
  if (!instruments.ok()) return instruments.status();
  instruments_ = std::move(*instruments);
  if (!instruments_->url().empty()) note("metrics: " + instruments_->url());
  return {};
}

Status TerminalEvents::step(const StepRecord& record) {
  account_.add(record);
  if (display_) display_->show(record);
  if (instruments_) return instruments_->step(record);
  if (!pipe_.isOpen()) return {};
  JsonLine line;
  return send(line.data(), writeJson(record, &line));
}

Status TerminalEvents::exchange(const ExchangeRecord& record) {
  if (instruments_) return instruments_->exchange(record);
  if (!pipe_.isOpen()) return {};
  ExchangeLine line;
  return send(line.data(), writeJson(record, &line));
}

Status TerminalEvents::memory(const MemoryRecord& record) {
  const std::string line = toJson(record) + "\n";
  if (pipe_.isOpen()) return send(line.data(), line.size());
  if (display_) display_->clear();
  std::fputs(toTable({record}).c_str(), stdout);
  return {};
}

Status TerminalEvents::happened(const RunEvent& event) {
  endedEarly_ |= event.kind == RunEvent::Kind::kEnd;
  account_.add(event);
  if (instruments_) return instruments_->happened(event);
  if (!pipe_.isOpen()) return {};
  const std::string line = toJson(event) + "\n";
  return send(line.c_str(), line.size());
}

Status TerminalEvents::record(const std::string& json) {
  if (instruments_) return instruments_->log(json);
  if (!pipe_.isOpen()) return {};
  const std::string line = json + "\n";
  return send(line.c_str(), line.size());
}

uint32_t TerminalEvents::wishes() { return takeSignalledWishes(); }

void TerminalEvents::note(const std::string& line) {
  if (logs(levelOf(line))) std::fprintf(stderr, "%s\n", printable(line).c_str());
}
void TerminalEvents::debug(std::string_view line) {
  if (logs(LogLevel::kDebug)) std::fprintf(stderr, "debug: %s\n", printable(line).c_str());
}
void TerminalEvents::tellWhere(const std::string& where) {
  const int rank = Whereabouts::ofProcess().rank();
  const std::string label = underHycRun() || rank < 0 ? "" : "rank " + std::to_string(rank) + ": ";
  std::fprintf(stderr, "%sis at: %s\n", label.c_str(), printable(where).c_str());
}

// hyc-run labels the lines of a rank itself.
std::string TerminalEvents::label() const {
  const bool isNamed = environment_.worldSize > 1 && !environment_.underHycRun;
  return isNamed ? "rank " + std::to_string(environment_.rank) + ": " : "";
}

// A line is shorter than PIPE_BUF, so it is written whole or not at all.
Status TerminalEvents::send(const char* line, size_t size) {
  while (::write(pipe_.get(), line, size) < 0) {
    if (errno != EINTR) return errnoError("cannot report to the launcher", errno);
  }
  return {};
}

// Under hyc-run that one tells it of all its starts.
void TerminalEvents::tellAccount() const {
  if (!display_ || !hasCheckpoints_) return;
  const double seconds = static_cast<double>(monotonicNs() - beginNs_) * 1e-9;
  display_->clear();
  std::fprintf(stdout, "%s\n", account_.toLine(seconds).c_str());
  if (instruments_) (void)instruments_->report(account_.toJson(seconds));
}

// A rank that only follows another's failure gives the launcher time to see that one, and to end this one unheard.
int TerminalEvents::report(const Status& status) const {
  tellAccount();
  if (status.ok()) return endedEarly_ ? static_cast<int>(StatusCode::kPeerLost) : 0;
  if (environment_.underHycRun && status.code() == StatusCode::kPeerLost) sleep(kLauncherGraceSeconds);
  std::fprintf(stderr, "%serror: %s\n", label().c_str(), printable(status.message()).c_str());
  writeErrorFile(status);
  return status.exitCode();
}

}  // namespace hycrt
