// Reading a ds_config.json: every key against the table, with the nearest known one where it is unknown.
#include "Config/ConfigFile.h"

#include "hyc/Support/DriverError.h"
#include "hyc/Support/JsonFile.h"
#include "hyc/Support/NearestName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace llvm;
using namespace hyc;

static constexpr uint64_t kMaxBytes = uint64_t(16) << 20;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static bool isRest(const ConfigKey &key) { return key.path.ends_with(".*"); }

static SmallVector<StringRef> spellingsOf(const ConfigKey &key) {
  SmallVector<StringRef> spellings{key.path};
  key.aliases.split(spellings, ' ', -1, /*KeepEmpty=*/false);
  return spellings;
}

static const ConfigKey *findKey(StringRef path) {
  const ConfigKey *rest = nullptr;
  for (const ConfigKey &key : getConfigKeys()) {
    if (is_contained(spellingsOf(key), path))
      return &key;
    if (isRest(key) && path.starts_with(key.path.drop_back()))
      rest = &key;
  }
  return rest;
}

/// Whether a key with a row stands below `path`: then an object stands there.
static bool isGroup(StringRef path) {
  return any_of(getConfigKeys(), [&](const ConfigKey &key) {
    return any_of(spellingsOf(key), [&](StringRef spelling) {
      return spelling.size() > path.size() && spelling.starts_with(path) && spelling[path.size()] == '.';
    });
  });
}

/// `fp16.enabled` in `fp16`: its last name, and how far it is from where it was looked for.
static StringRef nearestKey(StringRef path) {
  auto [prefix, name] = path.contains('.') ? path.rsplit('.') : std::pair<StringRef, StringRef>("", path);
  StringRef best;
  unsigned least = ~0u;
  auto consider = [&](StringRef candidate) {
    auto [where, last] =
        candidate.contains('.') ? candidate.rsplit('.') : std::pair<StringRef, StringRef>("", candidate);
    // One letter wrong in the right object is nearer than the right name in another.
    unsigned distance = 2 * nameDistance(name, last) + (where == prefix ? 0 : 3);
    if (distance < least) {
      best = candidate;
      least = distance;
    }
  };
  for (const ConfigKey &key : getConfigKeys())
    for (StringRef spelling : spellingsOf(key)) {
      // The objects on the way are keys too.
      for (size_t dot = spelling.find('.'); dot != StringRef::npos; dot = spelling.find('.', dot + 1))
        consider(spelling.take_front(dot));
      if (!isRest(key))
        consider(spelling);
    }
  return best;
}

static std::string describeNumber(double value) {
  std::string text;
  raw_string_ostream os(text);
  if (value == std::trunc(value) && std::fabs(value) <= 0x1p53)
    os << static_cast<int64_t>(value);
  else
    os << format("%g", value);
  return text;
}

std::string ConfigType::describe() const {
  std::string range = " from " + describeNumber(least) + " to " + describeNumber(most);
  switch (kind) {
  case Bool:
    return "true or false";
  case Integer:
    return "an integer" + range;
  case Number:
    return "a number" + range;
  case Pair:
    return "an array of two numbers" + range;
  case Text: {
    if (choices.empty())
      return "a string";
    SmallVector<StringRef> names;
    choices.split(names, '|');
    return (names.size() > 1 ? join(drop_end(names), ", ") + " or " : "") + names.back().str();
  }
  case Any:
    return "any value";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Expected<ConfigFile> ConfigFile::read(const std::string &path) {
  Expected<std::string> text = readTextFile("config", path, kMaxBytes);
  if (!text)
    return text.takeError();
  return parse(*text, path);
}

Expected<ConfigFile> ConfigFile::parse(StringRef text, StringRef path) {
  Expected<JsonValue> root = parseJson(text, path);
  if (!root)
    return asDataError(root.takeError());
  ConfigFile file;
  file.path = path.str();
  file.root = std::make_unique<JsonValue>(std::move(*root));
  if (!file.root->getObject())
    return asDataError(locatedError(path, file.root->getPosition(),
                                    "found " + file.root->describe() + ", expected an object of DeepSpeed's keys"));
  if (Error error = file.readObject(*file.root, ""))
    return error;
  return file;
}

Error ConfigFile::readObject(const JsonValue &object, const std::string &prefix) {
  for (const JsonValue::Member &member : *object.getObject())
    if (Error error = readMember(member, prefix + member.key))
      return error;
  return Error::success();
}

Error ConfigFile::readMember(const JsonValue::Member &member, const std::string &path) {
  // A key that holds a dot is none of the table's, whatever path it spells.
  const ConfigKey *key = StringRef(member.key).contains('.') ? nullptr : findKey(path);
  if (key && !isRest(*key))
    return add(*key, member, path);
  if (!isGroup(path))
    return key ? add(*key, member, path) : unknownKey(member, path);
  if (member.value.isNull())
    return Error::success();
  if (!member.value.getObject())
    return asDataError(locatedError(this->path, member.value.getPosition(),
                                    path + " is " + member.value.describe() + ", expected an object"));
  return readObject(member.value, path + ".");
}

Error ConfigFile::unknownKey(const JsonValue::Member &member, const std::string &path) const {
  const char *dot = StringRef(member.key).contains('.') ? " (a dot does not nest objects)" : "";
  return asDataError(
      locatedError(this->path, member.keyAt,
                   "unknown key \"" + path + "\"" + dot + "; the nearest known one is \"" + nearestKey(path) + "\""));
}

Error ConfigFile::add(const ConfigKey &key, const JsonValue::Member &member, const std::string &path) {
  if (member.value.isNull())
    return Error::success();
  ConfigEntry entry{&key, &member.value, path, member.keyAt};
  if (const ConfigEntry *first = isRest(key) ? nullptr : find(key.path))
    return asDataError(locatedError(this->path, member.keyAt,
                                    path + " is another name of " + first->spelled + ", which line " +
                                        Twine(first->keyAt.line) + ", column " + Twine(first->keyAt.column) +
                                        " gives already"));
  if (Error error = checkType(entry))
    return error;
  entries.push_back(std::move(entry));
  return Error::success();
}

/// Whether `number` is there and within the type's range.
static bool isWithin(std::optional<double> number, const ConfigType &type) {
  return number && *number >= type.least && *number <= type.most;
}

static bool hasType(const JsonValue &value, const ConfigType &type) {
  switch (type.kind) {
  case ConfigType::Bool:
    return value.getBool().has_value();
  case ConfigType::Integer:
    return value.getInteger() && isWithin(value.getNumber(), type);
  case ConfigType::Number:
    return isWithin(value.getNumber(), type);
  case ConfigType::Pair: {
    const std::vector<JsonValue> *pair = value.getArray();
    return pair && pair->size() == 2 && isWithin((*pair)[0].getNumber(), type) &&
           isWithin((*pair)[1].getNumber(), type);
  }
  case ConfigType::Text: {
    SmallVector<StringRef> names;
    type.choices.split(names, '|', -1, /*KeepEmpty=*/false);
    return value.getString() && (names.empty() || is_contained(names, *value.getString()));
  }
  case ConfigType::Any:
    return true;
  }
  return false;
}

Error ConfigFile::checkType(const ConfigEntry &entry) const {
  if (hasType(*entry.value, entry.key->type) || entry.isAuto())
    return Error::success();
  return refuse(entry, "expected " + entry.key->type.describe() + ", or \"auto\"");
}

//===----------------------------------------------------------------------===//
// Asking
//===----------------------------------------------------------------------===//

const ConfigEntry *ConfigFile::find(StringRef path) const {
  for (const ConfigEntry &entry : entries)
    if (entry.key->path == path)
      return &entry;
  return nullptr;
}

const JsonValue *ConfigFile::get(StringRef path) const {
  const ConfigEntry *entry = find(path);
  return entry && !entry->isAuto() ? entry->value : nullptr;
}

std::string ConfigFile::sourceOf(const ConfigEntry &entry) const {
  TextPosition at = entry.value->getPosition();
  return path + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + entry.spelled;
}

Error ConfigFile::refuse(const ConfigEntry &entry, const Twine &what) const {
  return asDataError(
      locatedError(path, entry.value->getPosition(), entry.spelled + " is " + entry.value->describe() + ", " + what));
}
