// Events to JSON and back, and the sum of a run's time.
#include "hycrt/run_event.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "hycrt/step_report.h"
#include "run/tier_report.h"

namespace hycrt {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kBegin = "{\"event\":";
constexpr size_t kMostTextBytes = 1500;  // of a cause or a path: a line has to go through a pipe at once

constexpr uint64_t kMostRank = 1 << 30;

// By kind.
constexpr const char* kNames[] = {
    "resume", "checkpoint", "checkpoint_failed", "verify",  "end",      "failure", "restart",
    "resize", "copy",       "copy_failed",       "measure", "proposal", "relayout"};

// Of lines that are written whole, not read back.
constexpr char kReportEvent[] = "report";
constexpr const char* kOthers[] = {kReportEvent, kExchangesEvent, kExchangesOfHostEvent};

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.2f s" : "%.1f s", value);
  return text;
}

std::string shortened(const std::string& text) {
  return text.size() <= kMostTextBytes ? text : text.substr(0, kMostTextBytes) + "…";
}

// Bytes that are no UTF-8 are replaced.
std::string dumped(const ordered_json& object) {
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string counted(int64_t count, const std::string& what, const std::string& several = "") {
  return std::to_string(count) + " " + (count == 1 ? what : several.empty() ? what + "s" : several);
}

}  // namespace

std::string toJson(const RunEvent& event) {
  ordered_json object{{"event", kNames[static_cast<int>(event.kind)]}, {"step", event.step}};
  if (!event.cause.empty()) object["cause"] = shortened(event.cause);
  object["seconds"] = event.seconds;
  if (!event.path.empty()) object["path"] = shortened(event.path);
  if (event.written > 0) object["written"] = event.written;
  if (event.goneOn > 0) object["gone_on"] = event.goneOn;
  if (event.rank >= 0) object["rank"] = event.rank;
  return dumped(object);
}

bool isRunRecord(std::string_view json) {
  constexpr std::string_view kExchanges = "exchanges";
  return isRunEvent(json) && json.substr(kBegin.size() + 1, kExchanges.size()) == kExchanges;
}

bool isBeginOfRunEvent(std::string_view text) {
  if (text.size() <= kBegin.size()) return kBegin.substr(0, text.size()) == text;
  if (!isRunEvent(text)) return false;
  const auto isNamed = [text](std::string_view name) {
    const std::string quoted = '"' + std::string(name) + '"';
    const size_t count = std::min(quoted.size(), text.size() - kBegin.size());
    return text.substr(kBegin.size(), count) == std::string_view(quoted).substr(0, count);
  };
  return std::any_of(std::begin(kNames), std::end(kNames), isNamed) ||
         std::any_of(std::begin(kOthers), std::end(kOthers), isNamed);
}

bool isRunEvent(std::string_view json) { return json.substr(0, kBegin.size()) == kBegin; }

Result<RunEvent> parseRunEvent(std::string_view text) {
  Result<nlohmann::json> object = parseJson(text, "event");
  if (!object.ok()) return object.status();
  const auto textOf = [&](const char* key) -> std::string {
    const auto found = object->is_object() ? object->find(key) : object->end();
    return found != object->end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string name = textOf("event");
  const auto kind = std::find(std::begin(kNames), std::end(kNames), name);
  if (kind == std::end(kNames)) return dataError("event: '" + name + "' is of no known kind");
  RunEvent event;
  event.kind = static_cast<RunEvent::Kind>(kind - std::begin(kNames));
  const auto numberOf = [&](const char* key) {
    const auto found = object->find(key);
    return found != object->end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const auto step = object->find("step");
  if (step == object->end() || !step->is_number_integer()) return dataError("event: no step number");
  event.step = step->get<int64_t>();
  event.seconds = numberOf("seconds");
  event.written = numberOf("written");
  event.goneOn = numberOf("gone_on");
  event.cause = textOf("cause");
  event.path = textOf("path");
  const auto rank = object->find("rank");
  if (rank != object->end() && rank->is_number_unsigned()) {
    event.rank = static_cast<int>(std::min<uint64_t>(rank->get<uint64_t>(), kMostRank));
  }
  return event;
}

void RunAccount::add(const StepRecord& record) {
  (record.evaluates ? evaluations_ : useful_) += record.milliseconds / 1e3;
  // A copy in memory may be whole before anybody has told of it.
  if (!record.evaluates) afterStep(record.step) = {record.step, useful_};
}

void RunAccount::add(const RunEvent& event) {
  switch (event.kind) {
    case RunEvent::Kind::kResume:
      resumeSeconds_ += lastResume_ = event.seconds;
      usefulAt_.try_emplace(event.step, useful_);
      return;
    case RunEvent::Kind::kCheckpoint:
      ++checkpoints_;
      checkpointSeconds_ += event.seconds;
      // What has been trained since is not in it.
      usefulAt_[event.step] = useful_ - event.goneOn;
      return;
    case RunEvent::Kind::kVerify:
      ++verified_;
      verifications_ += event.seconds;
      return;
    case RunEvent::Kind::kCheckpointFailed:
      ++failedCheckpoints_;
      checkpointSeconds_ += event.seconds;
      return;
    case RunEvent::Kind::kRestart:
    case RunEvent::Kind::kResize:
    case RunEvent::Kind::kRelayout: {
      const auto saved = usefulAt_.find(event.step);
      const After& after = afterStep(event.step);
      const double kept = saved != usefulAt_.end() ? saved->second : after.step == event.step ? after.useful : 0;
      redone_ += useful_ - kept;
      useful_ = kept;
      restartSeconds_ += event.seconds;
      lastResume_ = 0;
      ++restarts_;
      resizes_ += event.kind == RunEvent::Kind::kResize;
      ++causes_[event.cause];
      return;
    }
    case RunEvent::Kind::kCopy:
      ++copies_;
      copySeconds_ += event.seconds;
      return;
    case RunEvent::Kind::kCopyFailed:
      ++failedCopies_;
      copySeconds_ += event.seconds;
      return;
    case RunEvent::Kind::kEnd:
    case RunEvent::Kind::kFailure:
    case RunEvent::Kind::kMeasure:
    case RunEvent::Kind::kProposal:
      return;
  }
}

std::string RunAccount::toLine(double all) const {
  char share[32];
  std::snprintf(share, sizeof share, " (%.1f %%)", all > 0 ? useful_ / all * 100 : 0.0);
  std::string line = "time: " + seconds(all) + "; steps " + seconds(useful_) + share;
  if (evaluations_ > 0) line += ", evaluations " + seconds(evaluations_);
  if (checkpoints_ + failedCheckpoints_ > 0)
    line += ", " + counted(checkpoints_, "checkpoint") + " " + seconds(checkpointSeconds_);
  if (failedCheckpoints_ > 0) line += " (and " + std::to_string(failedCheckpoints_) + " could not be written)";
  if (copies_ + failedCopies_ > 0)
    line += ", " + counted(copies_, "copy", "copies") + " in memory " + seconds(copySeconds_);
  if (failedCopies_ > 0) line += " (and " + std::to_string(failedCopies_) + " could not be made)";
  if (verified_ > 0) line += ", " + counted(verified_, "comparison") + " of states " + seconds(verifications_);
  if (resumeSeconds_ > 0) line += ", reading checkpoints " + seconds(resumeSeconds_);
  const double lost = redone_ + restartSeconds_;
  if (restarts_ > 0) {
    line += ", lost " + seconds(lost) + " to " + counted(restarts_, "restart") + " (";
    for (const auto& [cause, count] : causes_)
      line += (line.back() == '(' ? "" : ", ") + cause + ": " + std::to_string(count);
    line += ")";
  }
  const double rest =
      all - useful_ - evaluations_ - verifications_ - checkpointSeconds_ - copySeconds_ - resumeSeconds_ - lost;
  return line + ", the rest " + seconds(std::max(0.0, rest));
}

std::string RunAccount::toJson(double all) const {
  ordered_json object{{"event", kReportEvent},
                      {"seconds", all},
                      {"step_seconds", useful_},
                      {"useful", all > 0 ? useful_ / all : 0.0},
                      {"evaluation_seconds", evaluations_},
                      {"checkpoints", checkpoints_},
                      {"failed_checkpoints", failedCheckpoints_},
                      {"checkpoint_seconds", checkpointSeconds_},
                      {"copies", copies_},
                      {"failed_copies", failedCopies_},
                      {"copy_seconds", copySeconds_},
                      {"verifications", verified_},
                      {"verify_seconds", verifications_},
                      {"resume_seconds", resumeSeconds_},
                      {"restarts", restarts_},
                      {"resizes", resizes_},
                      {"redone_seconds", redone_},
                      {"restart_seconds", restartSeconds_},
                      {"causes", ordered_json::object()}};
  for (const auto& [cause, count] : causes_) object["causes"][shortened(cause)] = count;
  return dumped(object);
}

}  // namespace hycrt
