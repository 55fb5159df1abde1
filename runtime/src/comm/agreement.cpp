// Rows of an agreement as text, and what differs between two.
#include "comm/agreement.h"

#include <algorithm>
#include <cstdint>
#include <set>

namespace hycrt {
namespace {

constexpr int kShownRows = 4;

std::string plain(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

// Null: there is no such row.
const std::string* valueOf(const Agreement& rows, const std::string& name) {
  const auto row = rows.find(name);
  return row == rows.end() ? nullptr : &row->second;
}

}  // namespace

std::string encodeAgreement(const Agreement& rows) {
  std::string text;
  for (const auto& [name, value] : rows) text += plain(name) + "\t" + plain(value) + "\n";
  return text;
}

Agreement decodeAgreement(const std::string& text) {
  Agreement rows;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const size_t tab = std::min(text.find('\t', begin), end);
    if (tab < end) rows[text.substr(begin, tab - begin)] = text.substr(tab + 1, end - tab - 1);
    begin = end + 1;
  }
  return rows;
}

std::string disagreement(const Agreement& a, const Agreement& b) {
  std::set<std::string> names;
  for (const Agreement* rows : {&a, &b}) {
    for (const auto& [name, value] : *rows) names.insert(name);
  }
  std::string text;
  int count = 0;
  for (const std::string& name : names) {
    const std::string *first = valueOf(a, name), *second = valueOf(b, name);
    const bool hasSay = !(first && *first == kNoSay) && !(second && *second == kNoSay);
    if (!hasSay || (first && second && *first == *second)) continue;
    if (++count > kShownRows) continue;
    const auto shown = [](const std::string* value) { return value ? *value : "not given"; };
    text += (text.empty() ? "" : "; ") + name + " is " + shown(first) + " and " + shown(second);
  }
  if (count > kShownRows) text += "; and " + std::to_string(count - kShownRows) + " more";
  return text;
}

}  // namespace hycrt
