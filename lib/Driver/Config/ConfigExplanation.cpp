// --explain-config: every key, what has become of it, and why.
#include "Config/ConfigResolution.h"

#include "Report/TextTable.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace hyc;

namespace {
struct Row {
  std::string key, status, value, from, why;
};
} // namespace

/// `ds.json:3:5` of `ds.json:3:5: train_batch_size`.
static std::string placeOf(StringRef source) { return source.split(": ").first.str(); }

static std::string nameOf(Origin origin, StringRef source) {
  switch (origin) {
  case Origin::Default:
    return "default";
  case Origin::Derived:
  case Origin::Plan:
  case Origin::Flag:
    return source.str();
  case Origin::Config:
    return placeOf(source);
  }
  return "";
}

/// A connected key: the setting tells who has decided it.
static void explainConnected(Row &row, const ConfigFile &file, const ConfigKey &key, const ConfigEntry *entry,
                             const CompileOptions &options) {
  ShownSetting setting = showSetting(key, options);
  bool isSaid = entry && !entry->isAuto();
  if (!isInForce(key, options)) {
    row.status = "without effect";
    bool isSchedules = key.path.starts_with("scheduler.") && *options.learningRateSchedule != "OneCycle";
    row.why = (isSchedules ? *options.learningRateSchedule : *options.optimizer) + " has no such parameter";
    return;
  }
  row.value = setting.value;
  row.from = nameOf(setting.origin, setting.source);
  // Two keys may be connected to one setting: the optimizer's rate, and that which a schedule rises to.
  bool isOther = setting.origin == Origin::Config && entry && setting.source != file.sourceOf(*entry);
  if (isSaid && (setting.origin > Origin::Config || isOther)) {
    row.status = "without effect";
    row.why = setting.source + " wins";
  } else if (setting.origin == Origin::Derived || (entry && setting.origin < Origin::Config)) {
    row.status = "derived";
    row.why = key.why.str();
  } else {
    row.status = "honoured";
    row.why = key.why.str();
  }
}

static Row explain(const ConfigFile &file, const ConfigKey &key, const ConfigEntry *entry,
                   const CompileOptions &options) {
  Row row;
  row.key = entry ? entry->spelled : key.path.str();
  row.value = entry ? entry->value->describe() : key.fallback.empty() ? "-" : key.fallback.str();
  row.from = entry ? placeOf(file.sourceOf(*entry)) : "default";
  std::string refusal = entry ? refusalOf(file, *entry) : "";
  if (!refusal.empty()) {
    row.status = "refused";
    row.why = refusal;
  } else if (key.treatment.kind == Treatment::Connected) {
    explainConnected(row, file, key, entry, options);
  } else {
    row.status = "without effect";
    row.why = key.why.str();
    // What hyc does is the only value that it would take.
    if (entry && entry->isAuto()) {
      row.status = "derived";
      row.value = key.treatment.neutral.empty() ? "-" : key.treatment.neutral.split('|').first.str();
    }
  }
  return row;
}

static void add(TextTable &table, const Row &row) { table.add({row.key, row.status, row.value, row.from, row.why}); }

std::string hyc::explainConfig(const ConfigFile &file, const CompileOptions &options) {
  TextTable given({"key", "status", "value", "from", "why"}), others = given;
  for (const ConfigEntry &entry : file.getEntries())
    add(given, explain(file, *entry.key, &entry, options));
  for (const ConfigKey &key : getConfigKeys())
    if (!file.find(key.path) && !key.path.ends_with(".*"))
      add(others, explain(file, key, nullptr, options));
  std::string text;
  if (!options.configFile->empty())
    text += "Given in " + *options.configFile + ":\n" + (given.empty() ? "none\n" : given.str()) + "\nNot given:\n";
  return text + others.str();
}
