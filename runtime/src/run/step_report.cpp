// Records of steps to JSON and back, and as aligned lines.
#include "hycrt/step_report.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/json_text.h"
#include "hycrt/printable.h"
#include "hycrt/run_event.h"
#include "instruments/line_file.h"
#include "instruments/live_view.h"
#include "instruments/metrics.h"

namespace hycrt {
namespace {

constexpr int64_t kRedrawNs = 100000000;
constexpr int kLeastRows = 10, kLeastColumns = 50;
constexpr size_t kMostShown = 80;  // of a line that is not ours

double numberOrNaN(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

// Where it is there.
Status readCount(const nlohmann::json& object, const char* key, int64_t* count) {
  if (!object.contains(key)) return {};
  const double value = numberOrNaN(object, key);
  if (!(value >= 0 && value < 0x1p53)) return dataError("step record: '" + std::string(key) + "' is no count");
  *count = static_cast<int64_t>(value);
  return {};
}

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

// "   12345 tokens/s"
std::string rateOf(const StepRecord& record, const char* pattern, const char* tokens, const char* samples) {
  const bool countsSamples = record.samplesPerSecond != 0;
  return format(pattern, countsSamples ? record.samplesPerSecond : record.tokensPerSecond) +
         (countsSamples ? samples : tokens);
}

// Of what does not say: the usual.
winsize terminalSize(FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size = {24, 80, 0, 0};
  return size;
}

bool isUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (value && *value) return std::strstr(value, "UTF-8") || std::strstr(value, "utf8");
  }
  return false;
}

}  // namespace

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const int64_t whole = static_cast<int64_t>(std::min(std::max(seconds, 0.0), 1e12) + 0.5);
  char text[64];
  std::snprintf(text, sizeof text, "%" PRId64 ":%02d:%02d", whole / 3600, static_cast<int>(whole / 60 % 60),
                static_cast<int>(whole % 60));
  return text;
}

std::string rateOf(const StepRecord& record) { return rateOf(record, "%8.0f", " tokens/s", " samples/s"); }

size_t writeJson(const StepRecord& record, JsonLine* line) {
  // Seventeen numbers of at most 25 characters and their keys always fit.
  char* at = line->data();
  char* const end = at + line->size();
  const auto text = [&at](std::string_view piece) { at = std::copy(piece.begin(), piece.end(), at); };
  const auto real = [&](double value) {
    if (!std::isfinite(value)) return text("null");
    char* const begin = at;
    at = std::to_chars(at, end, value).ptr;
    // A whole number keeps its point, so that readers of any language take it for a real one.
    if (std::string_view(begin, static_cast<size_t>(at - begin)).find_first_of(".e") == std::string_view::npos)
      text(".0");
  };
  char separator = '{';
  for (const Metric<StepRecord>& metric : stepMetrics()) {
    if (!metric.isIn(record)) continue;
    *at++ = std::exchange(separator, ',');
    text("\"");
    text(metric.key);
    text("\":");
    const double value = metric.valueOf(record);
    if (metric.isWhole) {
      at = std::to_chars(at, end, static_cast<int64_t>(value)).ptr;
    } else {
      real(value);
    }
  }
  text("}\n");
  return static_cast<size_t>(at - line->data());
}

std::string toJson(const StepRecord& record) {
  JsonLine line;
  return std::string(line.data(), writeJson(record, &line) - 1);
}

Result<StepRecord> parseStepRecord(std::string_view text) {
  Result<nlohmann::json> object = parseJson(text, "step record");
  if (!object.ok()) return object.status();
  if (!object->is_object()) return dataError("step record: expected an object");
  StepRecord record;
  const double step = numberOrNaN(*object, "step");
  const double steps = numberOrNaN(*object, "steps");
  if (!(step >= 0 && step < 0x1p53 && steps >= 0 && steps < 0x1p53)) return dataError("step record: no step number");
  record.step = static_cast<int64_t>(step);
  record.steps = static_cast<int64_t>(steps);
  HYCRT_RETURN_IF_ERROR(readCount(*object, "size", &record.size));
  const bool isBetween = object->contains("evaluate_batches");
  record.loss = numberOrNaN(*object, isBetween ? "evaluate_loss" : "loss");
  record.evaluates = isBetween || object->contains("perplexity");
  const char* const accuracy = isBetween ? "evaluate_accuracy" : "accuracy";
  if (object->contains(accuracy)) record.accuracy = numberOrNaN(*object, accuracy);
  if (isBetween) {
    const double batches = numberOrNaN(*object, "evaluate_batches");
    if (!(batches >= 1 && batches < 0x1p53)) return dataError("step record: no count of evaluated batches");
    record.batches = static_cast<int64_t>(batches);
  }
  record.gradNorm = numberOrNaN(*object, "grad_norm");
  record.learningRate = numberOrNaN(*object, "lr");
  if (object->contains("momentum")) record.momentum = numberOrNaN(*object, "momentum");
  record.milliseconds = numberOrNaN(*object, "ms");
  record.tokensPerSecond = numberOrNaN(*object, "tokens_per_s");
  if (object->contains("samples_per_s")) record.samplesPerSecond = numberOrNaN(*object, "samples_per_s");
  record.etaSeconds = numberOrNaN(*object, "eta_s");
  if (object->contains("exchange_ms")) record.exchangeMilliseconds = numberOrNaN(*object, "exchange_ms");
  if (object->contains("late_ms")) record.lateMilliseconds = numberOrNaN(*object, "late_ms");
  HYCRT_RETURN_IF_ERROR(readCount(*object, "late_rank", &record.lateRank));
  HYCRT_RETURN_IF_ERROR(readCount(*object, "resident_bytes", &record.residentBytes));
  HYCRT_RETURN_IF_ERROR(readCount(*object, "planned_bytes", &record.plannedBytes));
  if (object->contains("loss_scale")) {
    record.lossScale = numberOrNaN(*object, "loss_scale");
    const double skipped = numberOrNaN(*object, "skipped");
    if (!(skipped >= 0 && skipped < 0x1p53)) return dataError("step record: no count of skipped steps");
    record.skipped = static_cast<int64_t>(skipped);
  }
  return record;
}

std::string toLine(const StepRecord& record) {
  const std::string steps = std::to_string(record.steps);
  std::string step = std::to_string(record.step);
  step.insert(0, steps.size() - std::min(steps.size(), step.size()), ' ');
  if (record.batches > 0) {
    return "step " + step + "/" + steps + "   evaluation over " + std::to_string(record.batches) +
           (record.batches == 1 ? " batch" : " batches") + "   loss " + format("%9.5f", record.loss) +
           "   perplexity " + format("%9.3f", std::exp(record.loss)) +
           (record.accuracy ? "   accuracy " + format("%6.2f", *record.accuracy * 100) + " %" : "") + "   " +
           format("%8.1f", record.milliseconds) + " ms   " + rateOf(record);
  }
  if (record.evaluates) {
    return "batch " + step + "/" + steps + "   loss so far " + format("%9.5f", record.loss) + "   perplexity " +
           format("%9.3f", std::exp(record.loss)) +
           (record.accuracy ? "   accuracy " + format("%6.2f", *record.accuracy * 100) + " %" : "") + "   " +
           format("%8.1f", record.milliseconds) + " ms   " + rateOf(record) + "   left " + duration(record.etaSeconds);
  }
  return "step " + step + "/" + steps + "   loss " + format("%9.5f", record.loss) + "   grad norm " +
         format("%9.3e", record.gradNorm) + "   lr " + format("%9.3e", record.learningRate) + "   " +
         format("%8.1f", record.milliseconds) + " ms   " + rateOf(record) + "   left " + duration(record.etaSeconds) +
         (record.lossScale == 0
              ? ""
              : "   scale " + format("%g", record.lossScale) + "   skipped " + std::to_string(record.skipped));
}

std::string toShortLine(const StepRecord& record) {
  const std::string update =
      record.evaluates ? "" : " norm " + format("%.2e", record.gradNorm) + " lr " + format("%.2e", record.learningRate);
  return std::to_string(record.step) + "/" + std::to_string(record.steps) + (record.batches > 0 ? " held-out" : "") +
         " loss " + format("%.5f", record.loss) + update + " " + format("%.1f", record.milliseconds) + " ms " +
         rateOf(record, "%.0f", " tok/s ", " samples/s ") + duration(record.etaSeconds);
}

// What the first line of a log begins with, or a part of it, where the run was killed over it. JSON lines of others
// (data, say) begin otherwise.
static bool beginsARunLog(std::string_view text) {
  if (isBeginOfRunEvent(text)) return true;
  constexpr std::string_view kStep = "{\"step\":", kSteps = ",\"steps\":";
  const auto takePrefix = [&text](std::string_view expected) {
    const size_t count = std::min(text.size(), expected.size());
    if (text.substr(0, count) != expected.substr(0, count)) return false;
    text.remove_prefix(count);
    return true;
  };
  if (!takePrefix(kStep)) return false;
  text.remove_prefix(std::min(text.find_first_not_of("0123456789"), text.size()));
  return takePrefix(kSteps);
}

// Nothing else is begun anew, or gone on with.
static Status checkLog(const LineFile& file) {
  if (!file.isRegular()) return {};
  char start[kMostShown];
  const Result<size_t> count = file.read(start, sizeof start, 0);
  if (!count.ok()) return count.status();
  const std::string text(start, *count);
  if (beginsARunLog(text)) return {};
  return dataError("'" + file.path() + "' is there and is not the log of a run: it begins with '" +
                   printable(text.substr(0, text.find('\n'))) +
                   "', expected '{\"step\":…' or '{\"event\":…' of a run; give --log-file another name");
}

Result<std::unique_ptr<StepLog>> StepLog::open(const std::string& path, Mode mode) {
  Result<LineFile> file = LineFile::open(path, "log file");
  if (!file.ok()) return file.status();
  HYCRT_RETURN_IF_ERROR(checkLog(*file));
  return std::unique_ptr<StepLog>(new StepLog(std::make_unique<LineFile>(std::move(*file)), mode));
}

StepLog::StepLog(std::unique_ptr<LineFile> file, Mode mode) : file_(std::move(file)), mode_(mode) {}

StepLog::~StepLog() {
  if (file_->wasMade() && !hasBegun_) unlink(file_->path().c_str());
}

// Not before there is something to write: a run that is refused leaves what was there. What a run was killed over, or
// a full disk has cut off, is no line and goes.
Status StepLog::begin() {
  hasBegun_ = true;
  if (file_->isRegular()) {
    const Result<int64_t> end = mode_ == Mode::kAppend ? file_->endOfLines() : Result<int64_t>(int64_t{0});
    if (!end.ok()) return end.status();
    HYCRT_RETURN_IF_ERROR(file_->cut(*end));
  }
  return held_.empty() ? Status() : file_->append(held_.data(), held_.size());
}

Status StepLog::append(const StepRecord& record) {
  if (!hasBegun_) HYCRT_RETURN_IF_ERROR(begin());
  JsonLine line;
  return file_->append(line.data(), writeJson(record, &line));
}

Status StepLog::append(const std::string& line) {
  if (!hasBegun_) HYCRT_RETURN_IF_ERROR(begin());
  const std::string whole = line + "\n";
  return file_->append(whole.data(), whole.size());
}

Status StepLog::appendBehind(const std::string& line) {
  if (hasBegun_) return append(line);
  held_ += line + "\n";
  return {};
}

StepDisplay::StepDisplay(FILE* out) : out_(out), view_(std::make_unique<LiveView>()) {
  const char* terminal = std::getenv("TERM");
  const char* noColour = std::getenv("NO_COLOR");
  live_ = isatty(fileno(out)) && terminal && std::strcmp(terminal, "dumb") != 0;
  coloured_ = live_ && !(noColour && *noColour);
}

// The newest stays to be read.
StepDisplay::~StepDisplay() {
  if (isBehind_) draw();
  if (drawn_ > 0) std::fputc('\n', out_);
  std::fflush(out_);
}

void StepDisplay::show(const StepRecord& record) {
  if (!live_) {
    std::fprintf(out_, "%s\n", toLine(record).c_str());
    std::fflush(out_);
    return;
  }
  view_->add(record);
  // An evaluation's line stays; a step's gives way to the next.
  if (record.batches > 0) {
    clear();
    std::fprintf(out_, "%s\n", toLine(record).c_str());
  } else {
    newest_ = record;
  }
  isBehind_ = newest_.step > 0;
  // Nobody reads more than some of them a second.
  if (record.batches == 0 && record.step < record.steps && monotonicNs() - drawnNs_ < kRedrawNs) return;
  draw();
  if (newest_.step < newest_.steps || drawn_ == 0) return;
  // The last of them is left to be read.
  std::fputc('\n', out_);
  std::fflush(out_);
  drawn_ = 0;
  newest_.step = 0;
}

// Where there is no room for all of them, the one line that says most.
std::vector<std::string> StepDisplay::linesNow() const {
  const winsize size = terminalSize(out_);
  const size_t width = size.ws_col - 1u;  // a line that wraps could not be drawn anew
  if (size.ws_row >= kLeastRows && size.ws_col >= kLeastColumns) {
    return view_->lines(width, isUtf8() ? Glyphs::kBlocks : Glyphs::kAscii);
  }
  std::string line = toLine(newest_);
  if (line.size() > width) line = toShortLine(newest_);
  line.resize(std::min(line.size(), width));
  return {line};
}

void StepDisplay::erase() {
  if (drawn_ > 1) std::fprintf(out_, "\x1b[%zuA", drawn_ - 1);
  if (drawn_ > 0) std::fputs("\r\x1b[J", out_);
  drawn_ = 0;
}

void StepDisplay::draw() {
  isBehind_ = false;
  if (newest_.step == 0) return;
  erase();
  for (const std::string& line : linesNow()) {
    if (drawn_++ > 0) std::fputc('\n', out_);
    std::fprintf(out_, coloured_ ? "\x1b[36m%s\x1b[0m" : "%s", line.c_str());
  }
  drawnNs_ = monotonicNs();
  std::fflush(out_);
}

void StepDisplay::clear() {
  if (drawn_ == 0) return;
  erase();
  std::fflush(out_);
}

void StepDisplay::leaveOut() {
  isBehind_ = false;
  drawn_ = 0;
}

double RemainingTime::after(double milliseconds, int64_t stepsLeft) {
  if (!warm_ && count_ > 0) {
    count_ = 0;
    warm_ = true;
  }
  recent_[count_++ % kRecentSteps] = milliseconds;
  const size_t held = std::min(count_, kRecentSteps);
  double sum = 0;
  for (size_t i = 0; i < held; ++i) sum += recent_[i];
  return sum / static_cast<double>(held) * static_cast<double>(stepsLeft) / 1000;
}

}  // namespace hycrt
