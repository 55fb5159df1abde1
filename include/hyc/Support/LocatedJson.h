// LocatedJson: JSON in which every key and value knows its line and column, for files that people write. llvm::json
// forgets places and keeps the last of two equal keys; here both are errors that can be pointed at.
//
// Strict RFC 8259: no comments, no trailing commas, no NaN. Nesting is bounded, the text must be UTF-8 without NUL.
#ifndef HYC_SUPPORT_LOCATEDJSON_H
#define HYC_SUPPORT_LOCATEDJSON_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hyc {

inline constexpr unsigned kMaxJsonNesting = 32;

/// Both count from 1; columns count bytes.
struct TextPosition {
  unsigned line = 1, column = 1;
};

class JsonValue {
public:
  enum class Kind : uint8_t { Null, Bool, Number, String, Array, Object };
  struct Member;

  JsonValue() = default;
  JsonValue(Kind kind, TextPosition at, llvm::StringRef text = "");
  JsonValue(JsonValue &&other) noexcept { swap(other); }
  JsonValue &operator=(JsonValue &&other) noexcept {
    swap(other);
    return *this;
  }
  JsonValue(const JsonValue &) = delete;
  JsonValue &operator=(const JsonValue &) = delete;
  ~JsonValue();

  Kind getKind() const { return kind; }
  TextPosition getPosition() const { return at; }

  bool isNull() const { return kind == Kind::Null; }
  std::optional<bool> getBool() const;
  std::optional<llvm::StringRef> getString() const;
  std::optional<double> getNumber() const;
  /// A number without a fraction that 64 bits hold, however it is written: 5e8 too.
  std::optional<int64_t> getInteger() const;
  /// Null if this is no array.
  const std::vector<JsonValue> *getArray() const;
  /// Members in the order of the text; null if this is no object.
  const std::vector<Member> *getObject() const;
  /// The value of `key`; null if this is no object or has no such key.
  const JsonValue *get(llvm::StringRef key) const;

  /// The value as a message quotes it: `"text"`, `3e-4`, `true`, `an object`.
  std::string describe() const;

private:
  friend class JsonParser;
  /// Of a string its characters, of a number or a bool its spelling.
  llvm::StringRef getText() const;
  bool holdsText() const { return kind != Kind::Array && kind != Kind::Object; }
  void swap(JsonValue &other) noexcept;

  // A header has millions of values, most of them short numbers: those lie in here, all else elsewhere.
  static constexpr uint8_t kMostInside = 16, kElsewhere = 255;
  TextPosition at;
  Kind kind = Kind::Null;
  uint8_t inside = 0; ///< characters of the text that lie in here, or kElsewhere
  union {
    char characters[kMostInside] = {};
    std::string *text;
    std::vector<JsonValue> *elements;
    std::vector<Member> *members;
  };
};

struct JsonValue::Member {
  std::string key;
  TextPosition keyAt;
  JsonValue value;
};

/// `FILE:LINE:COLUMN: what`.
llvm::Error locatedError(llvm::StringRef file, TextPosition at, const llvm::Twine &what);

/// What the values of a text may take in memory: this much, and a multiple of the text itself. Real files take less;
/// one of nothing but brackets would take fifty times its size.
inline constexpr uint64_t kMostJsonCopies = 10, kJsonSlack = uint64_t(128) << 20;

/// Parses `text`, which `file` names in messages. Errors are those of locatedError.
llvm::Expected<JsonValue> parseJson(llvm::StringRef text, llvm::StringRef file);

/// Reads the members of one object of a file; every error is located and says what was expected.
class JsonObjectReader {
public:
  /// Fails where `value` is no object.
  static llvm::Expected<JsonObjectReader> open(llvm::StringRef file, const JsonValue &value);

  /// Every key of `required`, maybe some of `optional`, and none other.
  llvm::Error checkKeys(llvm::ArrayRef<llvm::StringRef> required, llvm::ArrayRef<llvm::StringRef> optional = {}) const;
  bool has(llvm::StringRef key) const { return object->get(key) != nullptr; }

  llvm::Error read(llvm::StringRef key, int64_t &value, int64_t least, int64_t most) const;
  llvm::Error read(llvm::StringRef key, double &value, double least, double most) const;
  llvm::Error read(llvm::StringRef key, bool &value) const;
  llvm::Error read(llvm::StringRef key, std::string &value) const;
  llvm::Error read(llvm::StringRef key, std::vector<std::string> &values) const;
  llvm::Expected<JsonObjectReader> child(llvm::StringRef key) const;
  /// Calls `read` on each object of an array.
  llvm::Error readObjects(llvm::StringRef key, llvm::function_ref<llvm::Error(const JsonObjectReader &)> read) const;

  /// `FILE:LINE:COLUMN` of the value of `key`, or of the object where it has none.
  std::string placeOf(llvm::StringRef key) const;
  /// An error there.
  llvm::Error fail(llvm::StringRef key, const llvm::Twine &what) const;

private:
  JsonObjectReader(llvm::StringRef file, const JsonValue &object) : file(file), object(&object) {}
  llvm::Error expected(llvm::StringRef key, const llvm::Twine &what) const;

  llvm::StringRef file;
  const JsonValue *object;
};

} // namespace hyc

#endif // HYC_SUPPORT_LOCATEDJSON_H
