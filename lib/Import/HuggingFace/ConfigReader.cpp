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

bool ConfigReader::enter(StringRef key) {
  const JsonValue *value = find(key);
  if (value && value->getObject())
    object = value;
  return object == value;
}

LogicalResult ConfigReader::wrong(StringRef key, const Twine &expected) {
  const JsonValue *found = find(key);
  return found ? wrong(key, *found, expected) : error() << "has no \"" << key << "\", expected " << expected;
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
  if (!text || !llvm::is_contained(choices, *text))
    return wrong(key, *found, listOf(choices));
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
