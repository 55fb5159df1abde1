// Records of exchanges to JSON and back.
#include "hycrt/exchange_record.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "base/json_text.h"

namespace hycrt {
namespace {

constexpr std::string_view kBegin = "{\"exchange\":";
constexpr size_t kMostText = 240;  // of each text, in the line

// Between quotes. Characters of several bytes are whole or not there.
char* appendText(std::string_view text, char* at) {
  size_t used = 0;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const unsigned char first = static_cast<unsigned char>(text[i]);
    const bool isPlain = first >= 0x20 && first != '"' && first != '\\';
    const size_t bytes = isPlain ? end - i : 6;
    if ((used += bytes) > kMostText) break;
    at = isPlain ? std::copy(text.begin() + static_cast<std::ptrdiff_t>(i),
                             text.begin() + static_cast<std::ptrdiff_t>(end), at)
                 : at + std::snprintf(at, 7, "\\u%04x", first);
    i = end;
  }
  return at;
}

}  // namespace

size_t writeJson(const ExchangeRecord& record, ExchangeLine* line) {
  char* at = line->data();
  const auto text = [&at](std::string_view piece) { at = std::copy(piece.begin(), piece.end(), at); };
  text(kBegin);
  text("{\"kind\":\"");
  at = appendText(record.kind, at);
  text("\",\"over\":\"");
  at = appendText(record.over, at);
  text("\",\"cause\":\"");
  at = appendText(record.cause, at);
  at += std::snprintf(at, static_cast<size_t>(line->data() + line->size() - at),
                      "\",\"times\":%" PRId64 ",\"seconds\":%.9g,\"late_seconds\":%.9g}}\n", record.times,
                      record.seconds, record.lateSeconds);
  return static_cast<size_t>(at - line->data());
}

bool isExchangeRecord(std::string_view json) { return json.substr(0, kBegin.size()) == kBegin; }

Result<ExchangeRecord> parseExchangeRecord(std::string_view text) {
  Result<nlohmann::json> object = parseJson(text, "exchange record");
  if (!object.ok()) return object.status();
  const auto found = object->is_object() ? object->find("exchange") : object->end();
  if (!object->is_object() || found == object->end())
    return dataError("exchange record: expected the key \"exchange\"");
  ObjectReader reader(*found, "exchange record", "/exchange",
                      {"kind", "over", "cause", "times", "seconds", "late_seconds"});
  ExchangeRecord record;
  record.kind = reader.text("kind");
  record.over = reader.text("over");
  record.cause = reader.text("cause");
  record.times = reader.integer("times", 0, int64_t{1} << 53);
  record.seconds = reader.number("seconds");
  record.lateSeconds = reader.number("late_seconds");
  if (!reader.status().ok()) return reader.status();
  return record;
}

}  // namespace hycrt
