// Parsing JSON from outside, and reading its objects key by key.
#include "base/json_text.h"

#include <set>

#include "base/nearest.h"

namespace hycrt {
namespace {

using nlohmann::json;

// What the callback throws: the parser has no other way to stop early and say why.
struct Refusal {
  std::string message;
};

// What the values may take in memory: this much, and a multiple of the text. A file of nothing but brackets would take
// fifty times its size.
constexpr uint64_t kSlack = uint64_t{128} << 20, kMostCopies = 10;

// About what the library takes for one parsed value, or key of an object with its node and the copy that finds doubles.
uint64_t bytesOf(json::parse_event_t event, const json& parsed) {
  const uint64_t text = parsed.is_string() ? parsed.get_ref<const std::string&>().size() : 0;
  switch (event) {
    case json::parse_event_t::key:
      return 160 + 2 * text;
    case json::parse_event_t::value:
      return sizeof(json) + (parsed.is_string() ? 48 + text : 0);
    case json::parse_event_t::object_start:
    case json::parse_event_t::array_start:
      return sizeof(json) + 64;
    default:
      return 0;
  }
}

// "parse error at line 3, column 7: …" without the library's own prefix.
std::string withoutPrefix(const std::string& what) {
  const size_t end = what.find("] ");
  return end == std::string::npos ? what : what.substr(end + 2);
}

}  // namespace

Result<json> parseJson(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  uint64_t bytes = 0;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxJsonDepth) {
      throw Refusal{"nested deeper than " + std::to_string(kMaxJsonDepth) + " levels"};
    }
    bytes += bytesOf(event, parsed);
    if (bytes > kSlack + kMostCopies * text.size()) {
      throw Refusal{"its values take more than " + std::to_string(kMostCopies) + " times its size in memory"};
    }
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw Refusal{"key '" + parsed.get<std::string>() + "' is given twice"};
    }
    return true;
  };
  // The library takes a NUL for the end, and what follows would go unread.
  if (const size_t at = text.find('\0'); at != std::string_view::npos) {
    return dataError(file + ": NUL character at byte " + std::to_string(at));
  }
  try {
    return json::parse(text.begin(), text.end(), check);
  } catch (const Refusal& refusal) {
    return dataError(file + ": " + refusal.message);
  } catch (const json::exception& error) {
    return dataError(file + ": " + withoutPrefix(error.what()));
  }
}

ObjectReader::ObjectReader(const json& object, std::string file, std::string path, std::vector<std::string> keys)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {
  if (!object_.is_object()) {
    fail(path_.empty() ? "/" : path_, std::string("expected an object, found ") + object_.type_name());
  } else {
    checkKeys(keys);
  }
}

void ObjectReader::checkKeys(const std::vector<std::string>& keys) {
  for (const auto& [key, value] : object_.items()) {
    bool known = false;
    for (const std::string& candidate : keys) known = known || candidate == key;
    if (!known) fail(path(key.c_str()), "unknown key; the nearest known one is '" + nearest(key, keys) + "'");
  }
}

void ObjectReader::fail(const std::string& path, const std::string& what) {
  if (status_.ok()) status_ = dataError(file_ + ": " + path + ": " + what);
}

const json* ObjectReader::member(const char* key, const char* wanted) {
  if (!status_.ok()) return nullptr;
  const auto found = object_.find(key);
  if (found == object_.end()) {
    fail(path(key), std::string("missing, expected ") + wanted);
    return nullptr;
  }
  return &*found;
}

int64_t ObjectReader::integer(const char* key, int64_t low, int64_t high) {
  const std::string wanted = "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  const json* value = member(key, wanted.c_str());
  if (!value) return low;
  const bool huge = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (!value->is_number_integer() || huge || value->get<int64_t>() < low || value->get<int64_t>() > high) {
    fail(path(key), "found " + value->dump() + ", expected " + wanted);
    return low;
  }
  return value->get<int64_t>();
}

double ObjectReader::number(const char* key) {
  const json* value = member(key, "a number");
  if (value && !value->is_number()) fail(path(key), "found " + value->dump() + ", expected a number");
  return value && value->is_number() ? value->get<double>() : 0;
}

bool ObjectReader::boolean(const char* key) {
  const json* value = member(key, "true or false");
  if (value && !value->is_boolean()) fail(path(key), "found " + value->dump() + ", expected true or false");
  return value && value->is_boolean() && value->get<bool>();
}

std::string ObjectReader::text(const char* key) {
  const json* value = member(key, "a string");
  if (!value) return {};
  if (!value->is_string()) {
    fail(path(key), "found " + value->dump() + ", expected a string");
    return {};
  }
  const std::string& string = value->get_ref<const std::string&>();
  if (string.find('\0') != std::string::npos) fail(path(key), "holds a NUL character");
  return string;
}

const json* ObjectReader::array(const char* key) {
  const json* value = member(key, "an array");
  if (value && !value->is_array()) {
    fail(path(key), std::string("expected an array, found ") + value->type_name());
    return nullptr;
  }
  return value;
}

const json* ObjectReader::object(const char* key) {
  const json* value = member(key, "an object");
  if (value && !value->is_object()) {
    fail(path(key), std::string("expected an object, found ") + value->type_name());
    return nullptr;
  }
  return value;
}

}  // namespace hycrt
