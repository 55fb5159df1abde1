// Types and ranges of config.json's values.
#include "ConfigReader.h"

#include "mlir/IR/Location.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

InFlightDiagnostic ConfigReader::error(TextPosition at) {
  return emitError(FileLineColLoc::get(&context, name, at.line, at.column));
}

/// The names of "a|b".
static SmallVector<StringRef, 2> namesOf(StringRef key) {
  SmallVector<StringRef, 2> names;
  key.split(names, '|');
  return names;
}

const JsonValue *ConfigReader::find(StringRef key) {
  const JsonValue *found = nullptr;
  for (StringRef name : namesOf(key)) {
    (object == &root ? asked : askedInner).insert(name);
    if (const JsonValue *value = object->get(name); value && !value->isNull() && !found)
      found = value;
  }
  return found;
}

bool ConfigReader::isNull(StringRef key) {
  return !has(key) && llvm::any_of(namesOf(key), [&](StringRef name) { return object->get(name) != nullptr; });
}

bool ConfigReader::enter(StringRef key) {
  const JsonValue *value = find(key);
  if (!value || !value->getObject())
    return false;
  outer.push_back(object);
  object = value;
  askedInner.clear();
  return true;
}

void ConfigReader::leave() { object = outer.pop_back_val(); }

bool ConfigReader::isNested(StringRef key) {
  const JsonValue *value = find(key);
  return value && value->getObject() &&
         llvm::any_of(*value->getObject(), [](const JsonValue::Member &member) { return member.value.getObject(); });
}

std::optional<int64_t> ConfigReader::countMembers(StringRef key) {
  const JsonValue *value = find(key);
  if (!value || !value->getObject())
    return std::nullopt;
  return static_cast<int64_t>(value->getObject()->size());
}

LogicalResult ConfigReader::wrong(StringRef key, const Twine &expected) {
  const JsonValue *found = find(key);
  StringRef name = namesOf(key).front();
  return found ? wrong(key, *found, expected) : error() << "has no \"" << name << "\", expected " << expected;
}

LogicalResult ConfigReader::parse(StringRef text) {
  llvm::Expected<JsonValue> value = parseJson(text, name);
  if (!value) {
    // FILE:LINE:COLUMN: what
    std::string message = llvm::toString(value.takeError());
    StringRef rest = message;
    TextPosition at;
    bool located = rest.consume_front(name) && rest.consume_front(":") && !rest.consumeInteger(10, at.line) &&
                   rest.consume_front(":") && !rest.consumeInteger(10, at.column) && rest.consume_front(": ");
    return located ? error(at) << rest : error() << message;
  }
  root = std::move(*value);
  if (!root.getObject())
    return error(root.getPosition()) << "is no JSON object, expected the config of a model";
  return success();
}

LogicalResult ConfigReader::wrong(StringRef key, const JsonValue &found, const Twine &expected) {
  // Of a key with two names the one that is there.
  for (StringRef each : namesOf(key))
    if (object->get(each) == &found)
      key = each;
  return error(found.getPosition()) << "\"" << key << "\" is " << found.describe() << ", expected " << expected;
}

LogicalResult ConfigReader::readSize(StringRef key, int64_t &value, int64_t least, int64_t most) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<int64_t> number = found->getInteger();
  if (!number || *number < least || *number > most)
    return wrong(key, *found, "an integer from " + Twine(least) + " to " + Twine(most));
  value = *number;
  return success();
}

LogicalResult ConfigReader::readNumber(StringRef key, double &value, bool mayBeZero) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<double> number = found->getNumber();
  if (!number || !std::isfinite(*number) || *number < 0 || (*number == 0 && !mayBeZero))
    return wrong(key, *found, mayBeZero ? "a number that is at least 0" : "a number above 0");
  value = *number;
  return success();
}

LogicalResult ConfigReader::readShare(StringRef key, double &value) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<double> number = found->getNumber();
  if (!number || !(*number >= 0 && *number < 1))
    return wrong(key, *found, "a share that is at least 0 and less than 1");
  value = *number;
  return success();
}

LogicalResult ConfigReader::readBool(StringRef key, bool &value) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<bool> flag = found->getBool();
  if (!flag)
    return wrong(key, *found, "true or false");
  value = *flag;
  return success();
}

static std::string listOf(ArrayRef<StringRef> choices) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(choices, os, [&](StringRef choice) { os << '"' << choice << '"'; }, " or ");
  return text;
}

LogicalResult ConfigReader::readString(StringRef key, std::string &value, ArrayRef<StringRef> choices) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  std::optional<StringRef> text = found->getString();
  if (!text || (!choices.empty() && !llvm::is_contained(choices, *text)))
    return wrong(key, *found, choices.empty() ? "a string" : listOf(choices));
  value = text->str();
  return success();
}

LogicalResult ConfigReader::readStrings(StringRef key, std::vector<std::pair<std::string, std::string>> &values,
                                        ArrayRef<StringRef> choices) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  if (!found->getObject())
    return wrong(key, *found, "an object");
  for (const JsonValue::Member &member : *found->getObject()) {
    std::optional<StringRef> text = member.value.getString();
    if (!text || !llvm::is_contained(choices, *text))
      return wrong((key + "\": \"" + member.key).str(), member.value, listOf(choices));
    values.push_back({member.key, text->str()});
  }
  return success();
}

template <typename Element>
LogicalResult ConfigReader::readArray(StringRef key, const Twine &expected,
                                      llvm::function_ref<std::optional<Element>(const JsonValue &)> read,
                                      std::vector<Element> &values) {
  const JsonValue *found = find(key);
  if (!found)
    return success();
  if (!found->getArray())
    return wrong(key, *found, "an array");
  values.clear();
  for (const JsonValue &element : *found->getArray()) {
    std::optional<Element> value = read(element);
    if (!value)
      return error(element.getPosition())
             << "\"" << key << "\" has " << element.describe() << ", expected " << expected;
    values.push_back(*value);
  }
  return success();
}

LogicalResult ConfigReader::readSizes(StringRef key, std::vector<int64_t> &values, int64_t least, int64_t most) {
  return readArray<int64_t>(
      key, "integers from " + Twine(least) + " to " + Twine(most),
      [&](const JsonValue &value) {
        std::optional<int64_t> number = value.getInteger();
        return number && *number >= least && *number <= most ? number : std::nullopt;
      },
      values);
}

LogicalResult ConfigReader::readNumbers(StringRef key, std::vector<double> &values) {
  return readArray<double>(
      key, "numbers above 0",
      [](const JsonValue &value) {
        std::optional<double> number = value.getNumber();
        return number && std::isfinite(*number) && *number > 0 ? number : std::nullopt;
      },
      values);
}

LogicalResult ConfigReader::readWords(StringRef key, std::vector<std::string> &values, ArrayRef<StringRef> choices) {
  return readArray<std::string>(
      key, listOf(choices),
      [&](const JsonValue &value) {
        std::optional<StringRef> text = value.getString();
        return text && llvm::is_contained(choices, *text) ? std::optional(text->str()) : std::nullopt;
      },
      values);
}

LogicalResult ConfigReader::refuse(StringRef key) {
  const JsonValue *found = find(key);
  if (!found || found->getBool() == false || found->getNumber() == 0.0 || found->getString() == StringRef() ||
      (found->getArray() && found->getArray()->empty()) || (found->getObject() && found->getObject()->empty()))
    return success();
  return wrong(key, *found,
               found->getBool()     ? "false: hyc does not build the model that it asks for"
               : found->getNumber() ? "0: hyc does not build the model that it asks for"
                                    : "none: hyc does not build the model that it asks for");
}

LogicalResult ConfigReader::refuseOthers(ArrayRef<StringRef> known) {
  for (const JsonValue::Member &member : *object->getObject())
    if (!llvm::is_contained(known, member.key) && !member.value.isNull())
      return wrong(member.key, member.value, "none; the keys that are read here are " + listOf(known));
  return success();
}

void ConfigReader::reportUnread(StringRef type, llvm::function_ref<bool(StringRef)> isKnown) {
  report(root, type, [&](StringRef key) { return asked.contains(key) || isKnown(key); });
}

void ConfigReader::reportOthers(StringRef type, llvm::function_ref<bool(StringRef)> isKnown) {
  report(*object, type, [&](StringRef key) { return askedInner.contains(key) || isKnown(key); });
}

void ConfigReader::report(const JsonValue &from, StringRef type, llvm::function_ref<bool(StringRef)> isKnown) {
  for (const JsonValue::Member &member : *from.getObject())
    if (!isKnown(member.key))
      emitWarning(FileLineColLoc::get(&context, name, member.keyAt.line, member.keyAt.column))
          << "\"" << member.key << "\", which is " << member.value.describe()
          << ", is no key that hyc or transformers read of a \"" << type << "\": the model is built without it";
}
