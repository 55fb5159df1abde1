// Every row of the table of settings, in JSON and as words.
#include "Folder/CommandFile.h"

#include "hyc/Driver/OptionChecks.h"
#include "hyc/Plan/AdapterSettings.h"
#include "hyc/Plan/SettingTable.h"
#include "hyc/Support/JsonFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

#include <limits>

using namespace llvm;
using namespace hyc;

static constexpr uint64_t kMostBytes = uint64_t(16) << 20;
static constexpr double kMostNumber = 1e300;

/// Whether a row says what becomes of the result, and nothing of it.
static bool isOfOutput(const SettingRow &row) {
  using Accessor = SettingRef (*)(CompileOptions &);
  static constexpr Accessor ofOutput[] = {
      memberOfOptions<&CompileOptions::output>,         memberOfOptions<&CompileOptions::emit>,
      memberOfOptions<&CompileOptions::planOnly>,       memberOfOptions<&CompileOptions::dumpFolder>,
      memberOfOptions<&CompileOptions::planCandidates>, memberOfOptions<&CompileOptions::planSeconds>};
  return llvm::is_contained(ofOutput, row.ofOptions);
}

/// Whether somebody said it; a program that calls hyc::compile may set values without an origin.
static bool isSaid(const SettingRow &row, const CompileOptions &options) {
  const CompileOptions defaults;
  SettingRef setting = row.in(options);
  return !row.flag.empty() && !isOfOutput(row) &&
         (originOf(setting) == Origin::Flag || valueOf(setting) != valueOf(row.in(defaults)));
}

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

static std::string absolute(const std::string &path) {
  SmallString<256> result(path);
  sys::fs::make_absolute(result);
  sys::path::remove_dots(result);
  return std::string(result);
}

template <typename T> static void replace(Setting<T> &setting, T value) {
  Setting<T> changed = T();
  changed.offer(std::move(value), setting.getOrigin(), setting.getSource());
  setting = std::move(changed);
}

/// Whoever reads it may stand elsewhere.
static CompileOptions withAbsolutePaths(CompileOptions options) {
  options.input = absolute(options.input);
  for (Setting<std::string> *file : {&options.planFile, &options.configFile, &options.nvmePath})
    if (!(*file)->empty())
      replace(*file, absolute(*file));
  if (sys::fs::exists(*options.machineFile)) // else the name of one that hyc has
    replace(options.machineFile, absolute(*options.machineFile));
  if (startsFromCheckpoint(options))
    replace(options.weights, absolute(*options.weights));
  if (AdapterSettings::isFolder(*options.lora))
    replace(options.lora, absolute(*options.lora));
  std::vector<std::string> measured;
  for (const std::string &file : *options.measuredFiles)
    measured.push_back(absolute(file));
  replace(options.measuredFiles, measured);
  return options;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

namespace {
struct ValueWriter {
  json::OStream &json;

  void operator()(bool value) { json.value(value); }
  void operator()(int64_t value) { json.value(value); }
  void operator()(double value) { json.value(value); }
  void operator()(const std::string &value) { json.value(json::fixUTF8(value)); }
  void operator()(const std::array<double, 2> &) { json.value(nullptr); } // of no flag
  /// Of the ranks: a folder is of one size.
  void operator()(const std::vector<int64_t> &values) { json.value(values.empty() ? 0 : values.front()); }
  void operator()(const std::vector<std::string> &values) {
    json.array([&] {
      for (const std::string &value : values)
        (*this)(value);
    });
  }
};
} // namespace

std::string hyc::writeCommand(const CompileOptions &asked) {
  const CompileOptions options = withAbsolutePaths(asked);
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os, 2);
  json.object([&] {
    json.attribute("format_version", 1);
    json.attribute("input", json::fixUTF8(options.input));
    json.attributeObject("settings", [&] {
      for (const SettingRow &row : getSettings())
        if (isSaid(row, options)) {
          json.attributeBegin(row.flag);
          std::visit(ValueWriter{json}, valueOf(row.in(options)));
          json.attributeEnd();
        }
    });
  });
  return text + "\n";
}

namespace {
/// The value of `key`, of the type that the setting has.
struct ValueReader {
  const JsonObjectReader &object;
  StringRef key;

  Error operator()(bool &value) { return object.read(key, value); }
  Error operator()(int64_t &value) {
    using Limits = std::numeric_limits<int64_t>;
    return object.read(key, value, Limits::min(), Limits::max());
  }
  Error operator()(double &value) { return object.read(key, value, -kMostNumber, kMostNumber); }
  Error operator()(std::string &value) { return object.read(key, value); }
  Error operator()(std::vector<std::string> &value) { return object.read(key, value); }
  /// Of the ranks, which are those of one size in a folder that is run.
  Error operator()(std::vector<int64_t> &value) {
    value.resize(1);
    return (*this)(value.front());
  }
  Error operator()(std::array<double, 2> &) { return object.fail(key, "is no flag"); }
};
} // namespace

static Error readSettings(const JsonObjectReader &settings, CompileOptions &options) {
  for (const SettingRow &row : getSettings()) {
    if (row.flag.empty() || isOfOutput(row) || !settings.has(row.flag))
      continue;
    SettingValue value = valueOf(row.in(options));
    Error error = std::visit([&](auto &typed) { return ValueReader{settings, row.flag}(typed); }, value);
    if (error)
      return error;
    offerTo(row.in(options), value, Origin::Flag, "--" + row.flag.str());
  }
  return Error::success();
}

Expected<CompileOptions> hyc::readCommand(const std::string &folder) {
  SmallString<256> path(folder);
  sys::path::append(path, kCommandName);
  CompileOptions options;
  Error error = readJsonFile("replan", std::string(path), kMostBytes, [&](const JsonObjectReader &root) -> Error {
    int64_t version = 0;
    if (Error wrong = root.read("format_version", version, 1, 1))
      return wrong;
    if (Error wrong = root.read("input", options.input))
      return wrong;
    Expected<JsonObjectReader> settings = root.child("settings");
    return settings ? readSettings(*settings, options) : settings.takeError();
  });
  if (error)
    return error;
  return options;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

namespace {
struct WordWriter {
  const SettingRow &row;
  std::vector<std::string> &words;

  void operator()(bool value) { words.push_back(name() + (value ? "" : "=false")); }
  void operator()(int64_t value) { add(std::to_string(value)); }
  void operator()(double value) {
    std::string text;
    raw_string_ostream(text) << json::Value(value); // the shortest that reads back as the same
    add(text);
  }
  void operator()(const std::string &value) { add(value); }
  void operator()(const std::array<double, 2> &) {} // of no flag
  void operator()(const std::vector<int64_t> &values) {
    addAll(values, [](int64_t each) { return std::to_string(each); });
  }
  void operator()(const std::vector<std::string> &values) {
    addAll(values, [](const std::string &each) { return each; });
  }

private:
  std::string name() const { return (row.flag.size() == 1 ? "-" : "--") + row.flag.str(); }
  void add(const std::string &value) { words.push_back(name() + "=" + value); }
  template <typename T, typename F> void addAll(const std::vector<T> &values, F spell) {
    std::string joined;
    for (const T &value : values) {
      if (!row.isSplitAtCommas)
        add(spell(value));
      joined += (joined.empty() ? "" : ",") + spell(value);
    }
    if (row.isSplitAtCommas && !values.empty())
      add(joined);
  }
};
} // namespace

std::vector<std::string> hyc::argumentsOf(const CompileOptions &options) {
  std::vector<std::string> words{options.input};
  for (const SettingRow &row : getSettings())
    if (isSaid(row, options))
      std::visit(WordWriter{row, words}, valueOf(row.in(options)));
  return words;
}
