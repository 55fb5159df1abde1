// JSON from outside: parsed with a bounded depth, without duplicate keys, and with errors that say line and column.
// (The library alone accepts a key that is given twice, and keeps the last.)
#ifndef HYCRT_SRC_BASE_JSON_TEXT_H_
#define HYCRT_SRC_BASE_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

inline constexpr int kMaxJsonDepth = 64;

// `file` labels the error.
Result<nlohmann::json> parseJson(std::string_view text, const std::string& file);

// Reads members of one JSON object by key and type; the first error is kept, so a reader checks once at its end.
class ObjectReader {
 public:
  // `path` is what errors call the object: "" for the root, "/ranks/3".
  ObjectReader(const nlohmann::json& object, std::string file, std::string path, std::vector<std::string> keys);

  int64_t integer(const char* key, int64_t low, int64_t high);
  double number(const char* key);
  bool boolean(const char* key);
  std::string text(const char* key);
  // Null where the member is missing or is no array or object respectively.
  const nlohmann::json* array(const char* key);
  const nlohmann::json* object(const char* key);

  std::string path(const char* key) const { return path_ + "/" + key; }
  const Status& status() const { return status_; }
  void fail(const std::string& path, const std::string& what);

 private:
  const nlohmann::json* member(const char* key, const char* wanted);
  void checkKeys(const std::vector<std::string>& keys);

  const nlohmann::json& object_;
  std::string file_;
  std::string path_;
  Status status_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_JSON_TEXT_H_
