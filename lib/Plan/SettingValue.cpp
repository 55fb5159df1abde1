// Settings of any type: what is done with their values is written once, here.
#include "hyc/Plan/SettingTable.h"

#include "hyc/Support/ByteCount.h"
#include "hyc/Support/DriverError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace hyc;

//===----------------------------------------------------------------------===//
// Through the reference
//===----------------------------------------------------------------------===//

SettingValue hyc::valueOf(SettingRef setting) {
  return std::visit([](const auto *typed) { return SettingValue(plain(**typed)); }, setting);
}
Origin hyc::originOf(SettingRef setting) {
  return std::visit([](const auto *typed) { return typed->getOrigin(); }, setting);
}
const std::string &hyc::sourceOf(SettingRef setting) {
  return std::visit([](const auto *typed) -> const std::string & { return typed->getSource(); }, setting);
}
void hyc::offerTo(SettingRef setting, const SettingValue &value, Origin by, const std::string &source) {
  std::visit(
      [&](auto *typed) {
        using T = std::decay_t<decltype(typed->get())>;
        typed->offer(std::get<Plain<T>>(value), by, source);
      },
      setting);
}

//===----------------------------------------------------------------------===//
// As text
//===----------------------------------------------------------------------===//

static std::string printOne(bool value) { return value ? "true" : "false"; }
static std::string printOne(int64_t value) { return std::to_string(value); }
static std::string printOne(const std::string &value) { return value; }
static std::string printOne(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.10g", value);
  return text;
}
static std::string printOne(const std::array<double, 2> &value) {
  return "[" + printOne(value[0]) + ", " + printOne(value[1]) + "]";
}
template <typename T> static std::string printOne(const std::vector<T> &values) {
  return join(map_range(values, [](const T &value) { return printOne(value); }), ",");
}

std::string hyc::print(const SettingValue &value) {
  std::string text = std::visit([](const auto &typed) { return printOne(typed); }, value);
  return text.empty() ? "-" : text;
}

static bool parseOne(StringRef text, bool &value) {
  value = text == "true";
  return value || text == "false";
}
static bool parseOne(StringRef text, int64_t &value) { return !text.getAsInteger(10, value); }
static bool parseOne(StringRef text, double &value) { return !text.getAsDouble(value); }
static bool parseOne(StringRef text, std::string &value) {
  value = text == "-" ? "" : text.str();
  return true;
}
static bool parseOne(StringRef text, std::array<double, 2> &value) {
  auto [first, second] = text.split(", ");
  return first.consume_front("[") && second.consume_back("]") && parseOne(first, value[0]) &&
         parseOne(second, value[1]);
}
template <typename T> static bool parseOne(StringRef text, std::vector<T> &values) {
  values.clear();
  SmallVector<StringRef> parts;
  if (text != "-")
    text.split(parts, ',');
  for (StringRef part : parts)
    if (!parseOne(part, values.emplace_back()))
      return false;
  return true;
}

std::optional<SettingValue> hyc::parseLike(const SettingValue &like, StringRef text) {
  SettingValue value = like;
  if (!std::visit([&](auto &typed) { return parseOne(text, typed); }, value))
    return std::nullopt;
  return value;
}

std::string SettingRow::policyName() const {
  std::string name = flag.str();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

std::string hyc::listWords(StringRef words) {
  SmallVector<StringRef> names;
  words.split(names, '|');
  return (names.size() > 1 ? join(drop_end(names), ", ") + " or " : "") + names.back().str();
}

std::string hyc::describe(const SettingRange &range) {
  switch (range.kind) {
  case SettingRange::Any:
    return "";
  case SettingRange::Within:
  case SettingRange::Below:
    if (!range.words.empty())
      return range.words.str();
    return std::to_string(static_cast<int64_t>(range.least)) + " to " +
           std::to_string(static_cast<int64_t>(range.most));
  case SettingRange::Choice:
    return listWords(range.words);
  case SettingRange::Bytes:
    return "a size such as 24GiB, 512MiB or a number of bytes";
  }
  return "";
}

/// Whether one number is in the range. NaN is in none.
static bool holds(const SettingRange &range, double number) {
  switch (range.kind) {
  case SettingRange::Within:
    return number >= range.least && number <= range.most;
  case SettingRange::Below:
    return number >= range.least && number < range.most;
  case SettingRange::Any:
  case SettingRange::Choice:
  case SettingRange::Bytes:
    return true;
  }
  return true;
}
static bool holds(const SettingRange &range, bool) { return true; }
static bool holds(const SettingRange &range, int64_t number) { return holds(range, static_cast<double>(number)); }
static bool holds(const SettingRange &range, const std::string &text) {
  SmallVector<StringRef> names;
  range.words.split(names, '|');
  if (range.kind == SettingRange::Choice)
    return is_contained(names, text);
  if (range.kind != SettingRange::Bytes)
    return true;
  Expected<int64_t> bytes = parseByteCount("", text);
  if (!bytes)
    consumeError(bytes.takeError());
  return bool(bytes);
}
template <typename T> static bool holdsAll(const SettingRange &range, const T &values) {
  return all_of(values, [&](const auto &value) { return holds(range, value); });
}
static bool holds(const SettingRange &range, const std::array<double, 2> &values) { return holdsAll(range, values); }
static bool holds(const SettingRange &range, const std::vector<int64_t> &values) { return holdsAll(range, values); }
static bool holds(const SettingRange &range, const std::vector<std::string> &values) { return holdsAll(range, values); }

bool hyc::isWithin(const SettingRange &range, const SettingValue &value) {
  return std::visit([&](const auto &typed) { return holds(range, typed); }, value);
}

std::string hyc::nameOf(const SettingRow &row, const CompileOptions &options) {
  const std::string &source = sourceOf(row.in(options));
  if (originOf(row.in(options)) == Origin::Plan)
    return "\"" + (row.planKey.contains('/') ? row.planKey.rsplit('/').second : row.planKey).str() + "\" of " + source;
  if (!source.empty())
    return source;
  return row.flag.empty() ? row.configKeys.rsplit('.').second.str() : "--" + row.flag.str();
}

std::string hyc::defaultOf(const SettingRow &row) {
  if (!row.shownDefault.empty())
    return row.shownDefault.str();
  SettingValue value = valueOf(row.in(CompileOptions()));
  if (const bool *flag = std::get_if<bool>(&value))
    return *flag ? "on" : "off";
  std::string text = print(value);
  return text == "-" ? "" : text;
}

Error hyc::checkRanges(const CompileOptions &options) {
  for (const SettingRow &row : getSettings()) {
    SettingRef setting = row.in(options);
    if (originOf(setting) == Origin::Default) // a default may lie outside: 0 micro-batches are those of the model
      continue;
    if (row.check)
      if (Error error = row.check(options, row))
        return error;
    SettingValue value = valueOf(setting);
    if (isWithin(row.range, value))
      continue;
    bool isText = std::holds_alternative<std::string>(value);
    std::string shown = isText ? "\"" + std::get<std::string>(value) + "\"" : print(value);
    return makeError(isOfFile(originOf(setting)) ? ExitCode::Data : ExitCode::Usage,
                     nameOf(row, options) + " is " + shown + ", expected " + describe(row.range));
  }
  return Error::success();
}
