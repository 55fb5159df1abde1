// A recursive descent over the grammar of RFC 8259; the depth is bounded, so the stack is too.
#include "hyc/Support/LocatedJson.h"

#include "hyc/Support/NearestName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <cstring>

using namespace llvm;
using namespace hyc;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

JsonValue::JsonValue(Kind kind, TextPosition at, StringRef given) : at(at), kind(kind) {
  if (kind == Kind::Array) {
    elements = new std::vector<JsonValue>;
  } else if (kind == Kind::Object) {
    members = new std::vector<Member>;
  } else if (given.size() <= kMostInside) {
    inside = static_cast<uint8_t>(given.size());
    std::memcpy(characters, given.data(), given.size());
  } else {
    inside = kElsewhere;
    text = new std::string(given);
  }
}

JsonValue::~JsonValue() {
  if (kind == Kind::Array)
    delete elements;
  else if (kind == Kind::Object)
    delete members;
  else if (inside == kElsewhere)
    delete text;
}

void JsonValue::swap(JsonValue &other) noexcept {
  std::swap(at, other.at);
  std::swap(kind, other.kind);
  std::swap(inside, other.inside);
  std::swap(characters, other.characters); // all that the union can be
}

StringRef JsonValue::getText() const {
  if (!holdsText())
    return "";
  return inside == kElsewhere ? StringRef(*text) : StringRef(characters, inside);
}

std::optional<bool> JsonValue::getBool() const {
  return kind == Kind::Bool ? std::optional<bool>(getText() == "true") : std::nullopt;
}

std::optional<StringRef> JsonValue::getString() const {
  return kind == Kind::String ? std::optional<StringRef>(getText()) : std::nullopt;
}

std::optional<double> JsonValue::getNumber() const {
  double number = 0;
  if (kind != Kind::Number || getText().getAsDouble(number) || !std::isfinite(number))
    return std::nullopt;
  return number;
}

std::optional<int64_t> JsonValue::getInteger() const {
  int64_t integer = 0;
  if (kind == Kind::Number && !getText().getAsInteger(10, integer))
    return integer;
  // Beyond 2^53 a double no longer says which integer was written.
  std::optional<double> number = getNumber();
  if (!number || std::trunc(*number) != *number || std::fabs(*number) > 9007199254740992.0)
    return std::nullopt;
  return static_cast<int64_t>(*number);
}

const std::vector<JsonValue> *JsonValue::getArray() const { return kind == Kind::Array ? elements : nullptr; }

const std::vector<JsonValue::Member> *JsonValue::getObject() const { return kind == Kind::Object ? members : nullptr; }

const JsonValue *JsonValue::get(StringRef key) const {
  if (kind != Kind::Object)
    return nullptr;
  for (const Member &member : *members)
    if (member.key == key)
      return &member.value;
  return nullptr;
}

std::string JsonValue::describe() const {
  constexpr size_t most = 60;
  StringRef text = getText();
  std::string shown = text.take_front(most).str() + (text.size() > most ? "…" : "");
  switch (kind) {
  case Kind::Null:
    return "null";
  case Kind::Bool:
    return text.str();
  case Kind::Number:
    return shown;
  case Kind::String:
    return "\"" + json::fixUTF8(shown) + "\"";
  case Kind::Array:
    return "an array";
  case Kind::Object:
    return "an object";
  }
  return "";
}

Error hyc::locatedError(StringRef file, TextPosition at, const Twine &what) {
  return createStringError(inconvertibleErrorCode(),
                           file + ":" + Twine(at.line) + ":" + Twine(at.column) + ": " + what);
}

//===----------------------------------------------------------------------===//
// Parser
//===----------------------------------------------------------------------===//

/// What an allocation takes beside its contents, and the characters of a std::string that need none.
static constexpr uint64_t kAllocation = 16, kMostInString = 15;

namespace hyc {
class JsonParser {
public:
  JsonParser(StringRef text, StringRef file) : text(text), file(file) {}

  Expected<JsonValue> parseDocument();

private:
  Expected<JsonValue> parseValue(unsigned depth);
  Expected<JsonValue> parseObject(unsigned depth);
  Expected<JsonValue> parseArray(unsigned depth);
  Expected<JsonValue> parseNumber();
  Expected<std::string> parseString();
  Expected<JsonValue> parseWord();
  Error parseEscape(std::string &into);
  Expected<unsigned> parseHex4();
  Error parseMember(JsonValue &object, unsigned depth);
  Error checkKeysDiffer(const JsonValue &object) const;
  /// Counts what a value takes; an error once all of them take too much.
  Error count(uint64_t bytes);

  Error checkText() const;
  Error checkDepth(unsigned depth) const;
  Error fail(size_t at, const Twine &what) const { return locatedError(file, positionOf(at), what); }
  Error fail(TextPosition at, const Twine &what) const { return locatedError(file, at, what); }
  TextPosition positionOf(size_t at) const;
  TextPosition here();
  /// What stands at `position`, for messages.
  std::string found() const;
  void skipSpace();
  bool consume(char c);

  StringRef text, file;
  size_t position = 0;
  uint64_t bytes = 0; // that the values take
  // Positions are asked for in the order of the text.
  size_t known = 0;
  TextPosition knownAt;
};
} // namespace hyc

TextPosition JsonParser::positionOf(size_t at) const {
  StringRef before = text.take_front(at);
  size_t newline = before.rfind('\n');
  unsigned column = newline == StringRef::npos ? at : at - newline - 1;
  return {static_cast<unsigned>(before.count('\n')) + 1, column + 1};
}

TextPosition JsonParser::here() {
  for (; known < position; ++known) {
    bool newline = text[known] == '\n';
    knownAt.line += newline;
    knownAt.column = newline ? 1 : knownAt.column + 1;
  }
  return knownAt;
}

std::string JsonParser::found() const {
  if (position >= text.size())
    return "the end of the file";
  if (text.substr(position).starts_with("//") || text.substr(position).starts_with("/*") || text[position] == '#')
    return "a comment, which JSON does not have";
  if (text[position] == '\n' || text[position] == '\r')
    return "the end of the line";
  unsigned bytes = getNumBytesForUTF8(static_cast<UTF8>(text[position]));
  return "'" + text.substr(position, bytes).str() + "'";
}

void JsonParser::skipSpace() {
  while (position < text.size() && StringRef(" \t\r\n").contains(text[position]))
    ++position;
}

bool JsonParser::consume(char c) {
  skipSpace();
  if (position >= text.size() || text[position] != c)
    return false;
  ++position;
  return true;
}

Error JsonParser::checkText() const {
  size_t bad = 0;
  if (!json::isUTF8(text, &bad))
    return fail(bad, "not valid UTF-8");
  if (size_t nul = text.find('\0'); nul != StringRef::npos)
    return fail(nul, "NUL character in text");
  return Error::success();
}

Error JsonParser::checkDepth(unsigned depth) const {
  if (depth < kMaxJsonNesting)
    return Error::success();
  return fail(position, "nested deeper than " + Twine(kMaxJsonNesting) + " brackets");
}

Expected<JsonValue> JsonParser::parseDocument() {
  if (Error error = checkText())
    return error;
  Expected<JsonValue> value = parseValue(0);
  if (!value)
    return value;
  skipSpace();
  if (position < text.size())
    return fail(position, "found " + found() + " after the end of the value");
  return value;
}

Error JsonParser::count(uint64_t more) {
  bytes += more;
  if (bytes <= kJsonSlack || (bytes - kJsonSlack) / kMostJsonCopies <= text.size())
    return Error::success();
  return fail(position, "the values up to here take more than " + Twine(kMostJsonCopies) +
                            " times the size of the whole text in memory; expected fewer and longer ones");
}

Expected<JsonValue> JsonParser::parseValue(unsigned depth) {
  if (Error error = count(sizeof(JsonValue)))
    return error;
  skipSpace();
  TextPosition at = here();
  char c = position < text.size() ? text[position] : '\0';
  if (c == '{')
    return parseObject(depth);
  if (c == '[')
    return parseArray(depth);
  if (c == '-' || isDigit(c))
    return parseNumber();
  if (c != '"')
    return parseWord();
  Expected<std::string> string = parseString();
  if (!string)
    return string.takeError();
  if (string->size() > JsonValue::kMostInside)
    if (Error error = count(sizeof(std::string) + string->size() + kAllocation))
      return error;
  return JsonValue(JsonValue::Kind::String, at, *string);
}

Expected<JsonValue> JsonParser::parseWord() {
  TextPosition at = here();
  StringRef word = text.substr(position).take_while([](char c) { return isAlnum(c) || c == '_'; });
  if (word != "true" && word != "false" && word != "null")
    return fail(position,
                "expected a value, found " + (word.empty() ? found() : "'" + word.take_front(60).str() + "'"));
  position += word.size();
  return JsonValue(word == "null" ? JsonValue::Kind::Null : JsonValue::Kind::Bool, at, word);
}

Expected<JsonValue> JsonParser::parseNumber() {
  TextPosition at = here();
  size_t begin = position;
  auto digits = [&] {
    size_t first = position;
    while (position < text.size() && isDigit(text[position]))
      ++position;
    return position > first;
  };
  auto next = [&](StringRef any) {
    bool is = position < text.size() && any.contains(text[position]);
    position += is;
    return is;
  };
  next("-");
  bool valid = next("0") || digits();
  if (valid && next("."))
    valid = digits();
  if (valid && next("eE")) {
    next("+-");
    valid = digits();
  }
  // "01" and "1x": a number must end where its grammar ends.
  if (!valid || (position < text.size() && (isAlnum(text[position]) || text[position] == '.')))
    return fail(begin, "not a number: '" +
                           text.substr(begin)
                               .take_while([](char c) { return isAlnum(c) || StringRef("+-.").contains(c); })
                               .take_front(60) +
                           "'");
  return JsonValue(JsonValue::Kind::Number, at, text.slice(begin, position));
}

Expected<unsigned> JsonParser::parseHex4() {
  StringRef digits = text.substr(position, 4);
  unsigned unit = 0;
  if (digits.size() < 4 || !all_of(digits, isHexDigit) || digits.getAsInteger(16, unit))
    return fail(position, "expected four hexadecimal digits after \\u");
  position += 4;
  return unit;
}

Error JsonParser::parseEscape(std::string &into) {
  size_t begin = position - 1; // at the backslash
  char c = position < text.size() ? text[position++] : '\0';
  constexpr StringLiteral names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
  if (size_t index = names.find(c); c != '\0' && index != StringRef::npos) {
    into += values[index];
    return Error::success();
  }
  if (c != 'u')
    return fail(begin, "unknown escape in a string");
  Expected<unsigned> unit = parseHex4();
  if (!unit)
    return unit.takeError();
  unsigned point = *unit;
  if (point >= 0xD800 && point < 0xDC00 && text.substr(position).starts_with("\\u")) {
    position += 2;
    Expected<unsigned> low = parseHex4();
    if (!low)
      return low.takeError();
    if (*low < 0xDC00 || *low > 0xDFFF)
      return fail(begin, "half of a surrogate pair in a string");
    point = 0x10000 + ((point - 0xD800) << 10) + (*low - 0xDC00);
  }
  if (point == 0)
    return fail(begin, "NUL character in a string");
  if (point >= 0xD800 && point < 0xE000)
    return fail(begin, "half of a surrogate pair in a string");
  char buffer[UNI_MAX_UTF8_BYTES_PER_CODE_POINT];
  char *end = buffer;
  ConvertCodePointToUTF8(point, end);
  into.append(buffer, end);
  return Error::success();
}

Expected<std::string> JsonParser::parseString() {
  size_t begin = position++;
  std::string string;
  for (; position < text.size() && text[position] != '"';) {
    unsigned char c = text[position++];
    if (c == '\\') {
      if (Error error = parseEscape(string))
        return error;
    } else if (c < 0x20) {
      return fail(begin, "a string that does not end on its line");
    } else {
      string += static_cast<char>(c);
    }
  }
  if (position >= text.size())
    return fail(begin, "a string that does not end");
  ++position;
  return string;
}

Expected<JsonValue> JsonParser::parseArray(unsigned depth) {
  if (Error error = checkDepth(depth))
    return error;
  JsonValue array(JsonValue::Kind::Array, here());
  if (Error error = count(sizeof(std::vector<JsonValue>) + 2 * kAllocation))
    return error;
  ++position;
  if (consume(']'))
    return array;
  while (true) {
    Expected<JsonValue> element = parseValue(depth + 1);
    if (!element)
      return element;
    array.elements->push_back(std::move(*element));
    if (consume(']')) {
      array.elements->shrink_to_fit();
      return array;
    }
    if (!consume(','))
      return fail(position, "expected ',' or ']', found " + found());
  }
}

Error JsonParser::checkKeysDiffer(const JsonValue &object) const {
  // By key, and those that are alike in the order of the text.
  std::vector<const JsonValue::Member *> sorted;
  for (const JsonValue::Member &member : *object.getObject())
    sorted.push_back(&member);
  llvm::stable_sort(sorted, [](const auto *a, const auto *b) { return a->key < b->key; });
  const JsonValue::Member *first = nullptr, *again = nullptr;
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i - 1]->key == sorted[i]->key && (!again || sorted[i] < again))
      first = sorted[i - 1], again = sorted[i];
  if (!again)
    return Error::success();
  return fail(again->keyAt, "key \"" + again->key + "\" is given twice, first at line " + Twine(first->keyAt.line) +
                                ", column " + Twine(first->keyAt.column));
}

Error JsonParser::parseMember(JsonValue &object, unsigned depth) {
  skipSpace();
  TextPosition at = here();
  if (position >= text.size() || text[position] != '"')
    return fail(position, "expected a key in quotes, found " + found());
  Expected<std::string> key = parseString();
  if (!key)
    return key.takeError();
  uint64_t elsewhere = key->size() > kMostInString ? key->size() + kAllocation : 0;
  if (Error error = count(sizeof(JsonValue::Member) - sizeof(JsonValue) + elsewhere))
    return error;
  if (!consume(':'))
    return fail(position, "expected ':' after the key, found " + found());
  Expected<JsonValue> value = parseValue(depth + 1);
  if (!value)
    return value.takeError();
  object.members->push_back({std::move(*key), at, std::move(*value)});
  return Error::success();
}

Expected<JsonValue> JsonParser::parseObject(unsigned depth) {
  if (Error error = checkDepth(depth))
    return error;
  JsonValue object(JsonValue::Kind::Object, here());
  if (Error error = count(sizeof(std::vector<JsonValue::Member>) + 2 * kAllocation))
    return error;
  ++position;
  if (consume('}'))
    return object;
  while (true) {
    if (Error error = parseMember(object, depth))
      return error;
    if (consume('}')) {
      if (Error error = checkKeysDiffer(object))
        return error;
      object.members->shrink_to_fit();
      return object;
    }
    if (!consume(','))
      return fail(position, "expected ',' or '}', found " + found());
  }
}

Expected<JsonValue> hyc::parseJson(StringRef text, StringRef file) { return JsonParser(text, file).parseDocument(); }

//===----------------------------------------------------------------------===//
// Objects
//===----------------------------------------------------------------------===//

Expected<JsonObjectReader> JsonObjectReader::open(StringRef file, const JsonValue &value) {
  if (!value.getObject())
    return locatedError(file, value.getPosition(), "found " + value.describe() + ", expected an object");
  return JsonObjectReader(file, value);
}

std::string JsonObjectReader::placeOf(StringRef key) const {
  const JsonValue *value = object->get(key);
  TextPosition at = (value ? value : object)->getPosition();
  return (file + ":" + Twine(at.line) + ":" + Twine(at.column)).str();
}

Error JsonObjectReader::fail(StringRef key, const Twine &what) const {
  const JsonValue *value = object->get(key);
  return locatedError(file, (value ? value : object)->getPosition(), what);
}

Error JsonObjectReader::expected(StringRef key, const Twine &what) const {
  const JsonValue *value = object->get(key);
  return fail(key, "\"" + key + "\" is " + (value ? value->describe() : "missing") + ", expected " + what);
}

Error JsonObjectReader::checkKeys(ArrayRef<StringRef> required, ArrayRef<StringRef> optional) const {
  SmallVector<StringRef> known(required);
  append_range(known, optional);
  for (const JsonValue::Member &member : *object->getObject())
    if (!is_contained(known, member.key))
      return locatedError(file, member.keyAt,
                          "unknown key \"" + member.key + "\"; the nearest known one is \"" +
                              nearestName(member.key, known) + "\"");
  for (StringRef key : required)
    if (!object->get(key))
      return fail(key, "key \"" + key + "\" is missing");
  return Error::success();
}

Error JsonObjectReader::read(StringRef key, int64_t &value, int64_t least, int64_t most) const {
  const JsonValue *member = object->get(key);
  std::optional<int64_t> number = member ? member->getInteger() : std::nullopt;
  if (!number || *number < least || *number > most)
    return expected(key, "an integer from " + Twine(least) + " to " + Twine(most));
  value = *number;
  return Error::success();
}

Error JsonObjectReader::read(StringRef key, double &value, double least, double most) const {
  const JsonValue *member = object->get(key);
  std::optional<double> number = member ? member->getNumber() : std::nullopt;
  if (!number || !(*number >= least && *number <= most)) {
    std::string range;
    raw_string_ostream(range) << "a number from " << format("%g", least) << " to " << format("%g", most);
    return expected(key, range);
  }
  value = *number;
  return Error::success();
}

Error JsonObjectReader::read(StringRef key, bool &value) const {
  const JsonValue *member = object->get(key);
  std::optional<bool> boolean = member ? member->getBool() : std::nullopt;
  if (!boolean)
    return expected(key, "true or false");
  value = *boolean;
  return Error::success();
}

Error JsonObjectReader::read(StringRef key, std::string &value) const {
  const JsonValue *member = object->get(key);
  std::optional<StringRef> string = member ? member->getString() : std::nullopt;
  if (!string)
    return expected(key, "a string");
  value = string->str();
  return Error::success();
}

Error JsonObjectReader::read(StringRef key, std::vector<std::string> &values) const {
  const JsonValue *member = object->get(key);
  const std::vector<JsonValue> *array = member ? member->getArray() : nullptr;
  if (!array)
    return expected(key, "an array of strings");
  for (const JsonValue &element : *array) {
    std::optional<StringRef> string = element.getString();
    if (!string)
      return locatedError(file, element.getPosition(),
                          "\"" + key + "\" holds " + element.describe() + ", expected strings only");
    values.push_back(string->str());
  }
  return Error::success();
}

Expected<JsonObjectReader> JsonObjectReader::child(StringRef key) const {
  const JsonValue *member = object->get(key);
  if (!member || !member->getObject())
    return expected(key, "an object");
  return JsonObjectReader(file, *member);
}

Error JsonObjectReader::readObjects(StringRef key, function_ref<Error(const JsonObjectReader &)> read) const {
  const JsonValue *member = object->get(key);
  const std::vector<JsonValue> *array = member ? member->getArray() : nullptr;
  if (!array)
    return expected(key, "an array of objects");
  for (const JsonValue &element : *array) {
    Expected<JsonObjectReader> reader = open(file, element);
    if (!reader)
      return reader.takeError();
    if (Error error = read(*reader))
      return error;
  }
  return Error::success();
}
