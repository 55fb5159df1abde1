// Widths are counted in code points, so that names in other scripts do not shift the columns.
#include "Report/TextTable.h"

#include <algorithm>

using namespace hyc;

TextTable::TextTable(std::vector<std::string> titles) {
  for (std::string &title : titles) {
    right.push_back(!title.empty() && title.back() == '>');
    if (right.back())
      title.pop_back();
  }
  rows.push_back(std::move(titles));
}

static size_t width(const std::string &text) {
  return std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; });
}

std::string TextTable::str() const {
  std::vector<size_t> widths(right.size(), 0);
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width(row[i]));
  std::string text;
  for (const auto &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      std::string padding(widths[i] - width(row[i]), ' ');
      line += (i ? "  " : "") + (right[i] ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}
