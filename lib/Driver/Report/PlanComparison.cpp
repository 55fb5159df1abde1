// Two plans side by side. Decisions are the keys of plan.json, whatever they are, so that a new one needs no line here;
// of rules each pattern is one.
#include "Report/PlanComparison.h"

#include "Report/MemoryReport.h"
#include "Report/TextTable.h"
#include "hyc/Plan/PlanText.h"
#include "hyc/Plan/SettingTable.h"
#include "hyc/Support/DriverError.h"
#include "hyc/Support/JsonFile.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <limits>
#include <optional>

using namespace llvm;
using namespace hyc;

static constexpr uint64_t kMostBytes = uint64_t(256) << 20;
static constexpr size_t kMostDecisions = 40;
static constexpr int64_t kMostCount = std::numeric_limits<int64_t>::max(), kMostRanks = int64_t(1) << 20;
static constexpr double kMostNumber = 1e300;
static constexpr char kPattern[] = "match"; // what a rule is of

namespace {
/// In the order in which they were first put in.
template <typename T> using Named = MapVector<std::string, T, StringMap<unsigned>>;
using Decisions = Named<std::string>;

/// What a plan comes to. Of several ranks the one that has the most counts.
struct Outcome {
  Named<int64_t> arenas; ///< bytes
  int64_t deviceBytes = 0, hostBytes = 0, sentBytes = 0;
  double stepMs = 0, waiting = 0;
  int64_t samples = 0; ///< a step
  int64_t microBatch = 0, gradAccum = 0;
  int64_t ranks = 0;
};

struct Side {
  std::string shown; ///< as it was named
  Decisions decisions;
  std::optional<Outcome> outcome;
};
} // namespace

/// Of a rule everything but what it is of: `[{tp}, {}], gradient {dp}`.
static std::string describeRule(const std::vector<JsonValue::Member> &members) {
  std::string text;
  for (const JsonValue::Member &member : members) {
    if (member.key == kPattern)
      continue;
    text += text.empty() ? "" : ", " + member.key + " ";
    text += member.value.getString() ? member.value.getString()->str() : member.value.describe();
  }
  return text;
}

static std::string describeSetting(const SettingRow &row, SettingRef setting) {
  bool isLeftOpen = originOf(setting) == Origin::Default && !row.shownDefault.empty();
  return isLeftOpen ? row.shownDefault.str() : print(valueOf(setting));
}

/// Settings as their flags, with what each plan means where its file says nothing; then cuts and rules.
static Decisions decisionsOf(Plan &plan, const JsonValue &file) {
  Decisions decisions;
  for (const SettingRow &row : getSettings())
    if (row.ofPlan && !row.planKey.empty() && !row.flag.empty())
      decisions["--" + row.flag.str()] = describeSetting(row, row.ofPlan(plan));
  for (const JsonValue::Member &member : *file.getObject()) {
    const auto *elements = member.value.getArray();
    std::string words;
    for (const JsonValue &element : elements ? ArrayRef(*elements) : ArrayRef<JsonValue>()) {
      if (const auto *rule = element.getObject(); rule && element.get(kPattern))
        decisions[member.key + " " + element.get(kPattern)->getString().value_or("").str()] = describeRule(*rule);
      else
        words += (words.empty() ? "" : ", ") + element.getString().value_or("").str();
    }
    if (!words.empty())
      decisions[member.key] = words;
  }
  return decisions;
}

static Error readStage(const JsonObjectReader &stage, Outcome &outcome) {
  int64_t device = 0, total = 0, sent = 0, ranks = 0;
  for (auto [key, value] :
       {std::pair("device_bytes", &device), {"total_bytes", &total}, {"sent_bytes_per_step", &sent}})
    if (Error error = stage.read(key, *value, 0, kMostCount))
      return error;
  if (Error error = stage.read("ranks", ranks, 1, kMostRanks))
    return error;
  outcome.ranks += ranks;
  outcome.deviceBytes = std::max(outcome.deviceBytes, device);
  outcome.hostBytes = std::max(outcome.hostBytes, total - device);
  outcome.sentBytes = std::max(outcome.sentBytes, sent);
  return stage.readObjects("arenas", [&](const JsonObjectReader &arena) -> Error {
    std::string name;
    int64_t bytes = 0;
    if (Error error = arena.read("arena", name))
      return error;
    if (Error error = arena.read("bytes", bytes, 0, kMostCount))
      return error;
    int64_t &largest = outcome.arenas[name];
    largest = std::max(largest, bytes);
    return Error::success();
  });
}

/// Of memory.json.
static Error readOutcome(const JsonObjectReader &root, Outcome &outcome) {
  if (Error error = root.read("samples_per_step", outcome.samples, 1, kMostCount))
    return error;
  for (auto [key, value] : {std::pair("micro_batch", &outcome.microBatch), {"grad_accum", &outcome.gradAccum}})
    if (root.has(key))
      if (Error error = root.read(key, *value, 1, kMaxBatch))
        return error;
  if (root.has("estimate")) {
    Expected<JsonObjectReader> estimate = root.child("estimate");
    if (!estimate)
      return estimate.takeError();
    if (Error error = estimate->read("step_ms", outcome.stepMs, 0, kMostNumber))
      return error;
    if (Error error = estimate->read("waiting", outcome.waiting, 0, 1))
      return error;
  }
  return root.readObjects("stages", [&](const JsonObjectReader &stage) { return readStage(stage, outcome); });
}

/// The whole of a plan's file, whose keys and values readPlan has held to the table of settings.
static Expected<Decisions> readDecisions(const std::string &path) {
  Expected<std::string> text = readTextFile("compare", path, kMostBytes);
  if (!text)
    return text.takeError();
  Expected<Plan> plan = readPlan(path);
  if (!plan)
    return plan.takeError();
  Expected<JsonValue> file = parseJson(*text, path);
  if (!file)
    return asDataError(file.takeError());
  return decisionsOf(*plan, *file);
}

static Expected<Side> readSide(const std::string &named) {
  const bool isFolder = sys::fs::is_directory(named);
  SmallString<256> plan(named), memory(isFolder ? StringRef(named) : sys::path::parent_path(named));
  if (isFolder)
    sys::path::append(plan, "plan.json");
  sys::path::append(memory, "memory.json");
  Side side{named, {}, {}};
  Expected<Decisions> decisions = readDecisions(plan.str().str());
  if (!decisions)
    return decisions.takeError();
  side.decisions = std::move(*decisions);
  if (!sys::fs::exists(memory))
    return side;
  Outcome outcome;
  if (Error error = readJsonFile("compare", memory.str().str(), kMostBytes,
                                 [&](const JsonObjectReader &root) { return readOutcome(root, outcome); }))
    return error;
  side.outcome = std::move(outcome);
  return side;
}

/// A table of what is not the same; empty where all is.
static std::string compareDecisions(const Side &a, const Side &b) {
  TextTable table({"decided differently", a.shown, b.shown});
  size_t count = 0;
  auto textOf = [](const Decisions &decisions, const std::string &key) {
    auto found = decisions.find(key);
    return found == decisions.end() || found->second.empty() ? std::string("-") : found->second;
  };
  auto add = [&](const std::string &key) {
    std::string ofA = textOf(a.decisions, key), ofB = textOf(b.decisions, key);
    if (ofA != ofB && ++count <= kMostDecisions)
      table.add({key, ofA, ofB});
  };
  for (const auto &[key, value] : a.decisions)
    add(key);
  for (const auto &[key, value] : b.decisions)
    if (!a.decisions.contains(key))
      add(key);
  if (count == 0)
    return "the plans decide the same\n";
  std::string text = table.str();
  if (count > kMostDecisions)
    text += formatv("and {0} more, which the two files tell\n", count - kMostDecisions).str();
  return text;
}

static std::string ratioOf(double a, double b) { return a > 0 ? formatv("{0:F2}", b / a).str() : b > 0 ? "-" : "1.00"; }

static std::string compareOutcomes(const Side &a, const Side &b) {
  const Outcome &ofA = *a.outcome, &ofB = *b.outcome;
  TextTable table({"comes to", a.shown + ">", b.shown + ">", "second/first>"});
  auto add = [&](const std::string &what, double first, double second, function_ref<std::string(double)> print) {
    if (first != 0 || second != 0)
      table.add({what, print(first), print(second), ratioOf(first, second)});
  };
  auto plainly = [](double value) { return formatv("{0:F0}", value).str(); };
  auto ms = [](double value) { return formatv("{0:F3} ms", value).str(); };
  auto share = [](double value) { return formatv("{0:F1} %", value * 100).str(); };
  add("ranks", static_cast<double>(ofA.ranks), static_cast<double>(ofB.ranks), plainly);
  add("samples a step", static_cast<double>(ofA.samples), static_cast<double>(ofB.samples), plainly);
  add("  a micro-batch, --micro-batch", static_cast<double>(ofA.microBatch), static_cast<double>(ofB.microBatch),
      plainly);
  add("  micro-batches, --grad-accum", static_cast<double>(ofA.gradAccum), static_cast<double>(ofB.gradAccum), plainly);
  add("a step, estimated", ofA.stepMs, ofB.stepMs, ms);
  add("a sample, estimated", ofA.stepMs / static_cast<double>(ofA.samples),
      ofB.stepMs / static_cast<double>(ofB.samples), ms);
  add("of it waiting for ranks", ofA.waiting, ofB.waiting, share);
  add("sent a step by a rank", static_cast<double>(ofA.sentBytes), static_cast<double>(ofB.sentBytes), formatBytes);
  add("memory of a rank's device", static_cast<double>(ofA.deviceBytes), static_cast<double>(ofB.deviceBytes),
      formatBytes);
  add("memory of its host beside that", static_cast<double>(ofA.hostBytes), static_cast<double>(ofB.hostBytes),
      formatBytes);
  auto bytesOf = [](const Outcome &outcome, const std::string &arena) {
    auto found = outcome.arenas.find(arena);
    return found == outcome.arenas.end() ? 0.0 : static_cast<double>(found->second);
  };
  Named<int64_t> arenas = ofA.arenas;
  for (const auto &[name, bytes] : ofB.arenas)
    arenas.insert({name, bytes});
  for (const auto &[name, bytes] : arenas)
    add("  " + name, bytesOf(ofA, name), bytesOf(ofB, name), formatBytes);
  return table.str();
}

Expected<std::string> hyc::comparePlanFiles(const std::string &a, const std::string &b) {
  Expected<Side> first = readSide(a);
  if (!first)
    return first.takeError();
  Expected<Side> second = readSide(b);
  if (!second)
    return second.takeError();
  std::string text = compareDecisions(*first, *second);
  for (const Side *side : {&*first, &*second})
    if (!side->outcome)
      return text + "\n" + side->shown +
             ": no memory.json beside the plan, so that there is no time or memory to compare; name a folder that "
             "hyc-compile --plan-only -o FOLDER has made\n";
  return text + "\nof several ranks the one that has the most; arenas by name\n" + compareOutcomes(*first, *second);
}
