// Rows are found by a key of their cells in which the numbers that may differ are left out.
#include "Report/FoldedTable.h"

#include "Report/TextTable.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cstdlib>

using namespace llvm;
using namespace hyc;

static constexpr size_t kMostRowsOfGroup = 4;
static constexpr size_t kMostRangesShown = 3;

NumberedName NumberedName::of(StringRef name) {
  auto isWord = [&](size_t at) { return at < name.size() && (isAlnum(name[at]) || name[at] == '_'); };
  for (size_t begin = 0; begin < name.size(); ++begin) {
    if (!isDigit(name[begin]) || (begin > 0 && isWord(begin - 1)))
      continue;
    size_t end = std::min(name.find_if_not(isDigit, begin), name.size());
    NumberedName result{name.take_front(begin).str(), name.drop_front(end).str(), -1};
    if (!isWord(end) && !name.slice(begin, end).getAsInteger(10, result.number))
      return result;
  }
  return {name.str(), "", -1};
}

std::string hyc::describeNumbers(const std::set<int64_t> &numbers) {
  std::vector<std::string> ranges;
  for (auto at = numbers.begin(); at != numbers.end();) {
    int64_t first = *at, last = first;
    for (++at; at != numbers.end() && *at == last + 1; ++at)
      ++last;
    ranges.push_back(first == last ? std::to_string(first) : std::to_string(first) + " to " + std::to_string(last));
  }
  if (ranges.size() <= kMostRangesShown)
    return join(ranges, ", ");
  return std::to_string(numbers.size()) + " of " + std::to_string(*numbers.begin()) + " to " +
         std::to_string(*numbers.rbegin());
}

std::string hyc::shortenNumbers(StringRef text) {
  auto [before, rest] = text.split('[');
  auto [list, after] = rest.split(']');
  std::set<int64_t> numbers;
  SmallVector<StringRef> parts;
  list.split(parts, ", ");
  for (StringRef part : parts)
    if (int64_t number = 0; !part.getAsInteger(10, number))
      numbers.insert(number);
  if (numbers.size() <= 2 || numbers.size() != parts.size())
    return text.str();
  return (before + "[" + describeNumbers(numbers) + "]" + after).str();
}

FoldedTable::FoldedTable(std::vector<std::string> given) : titles(std::move(given)) {
  for (std::string &title : titles) {
    Kind kind = title.empty()     ? Kind::Plain
                : title[0] == '*' ? Kind::Name
                : title[0] == '#' ? Kind::Numbers
                : title[0] == '+' ? Kind::Sum
                                  : Kind::Plain;
    kinds.push_back(kind);
    if (kind != Kind::Plain)
      title.erase(0, 1);
  }
}

void FoldedTable::add(std::vector<std::string> cells) {
  Row row{std::move(cells), std::vector<std::set<int64_t>>(titles.size()), std::vector<int64_t>(titles.size(), 0)};
  std::string key;
  for (size_t i = 0; i < titles.size(); ++i) {
    if (kinds[i] == Kind::Sum) {
      row.sums[i] = std::strtoll(row.cells[i].c_str(), nullptr, 10);
      continue;
    }
    NumberedName name = kinds[i] == Kind::Plain ? NumberedName{row.cells[i], "", -1} : NumberedName::of(row.cells[i]);
    key += name.before + (name.number < 0 ? '\1' : '\2') + name.after + '\n';
    if (name.number >= 0)
      row.numbers[i].insert(name.number);
  }
  auto [entry, isNew] = byKey.try_emplace(key, rows.size());
  if (isNew) {
    rows.push_back(std::move(row));
    return;
  }
  Row &known = rows[entry->second];
  for (size_t i = 0; i < titles.size(); ++i) {
    known.numbers[i].insert(row.numbers[i].begin(), row.numbers[i].end());
    known.sums[i] += row.sums[i];
  }
}

void FoldedTable::sortBy(size_t by) {
  byKey.clear();
  std::stable_sort(rows.begin(), rows.end(), [&](const Row &a, const Row &b) { return a.sums[by] > b.sums[by]; });
}

int64_t FoldedTable::truncate(size_t count, size_t by) {
  byKey.clear();
  int64_t rest = 0;
  for (size_t i = count; i < rows.size(); ++i)
    rest += rows[i].sums[by];
  rows.resize(std::min(count, rows.size()));
  return rest;
}

std::string FoldedTable::cellOf(const Row &row, size_t column, bool general) const {
  const std::set<int64_t> &numbers = row.numbers[column];
  if (kinds[column] == Kind::Sum)
    return std::to_string(row.sums[column]);
  if (numbers.empty() || (numbers.size() == 1 && !(general && kinds[column] == Kind::Name)))
    return row.cells[column];
  NumberedName name = NumberedName::of(row.cells[column]);
  return name.before + (kinds[column] == Kind::Name ? "*" : describeNumbers(numbers)) + name.after;
}

/// One row for several: what is equal in all stays, numbers give their range.
FoldedTable::Row FoldedTable::joined(const std::vector<const Row *> &others) const {
  Row result = *others.front();
  for (size_t i = 0; i < titles.size(); ++i) {
    for (const Row *row : others)
      result.numbers[i].insert(row->numbers[i].begin(), row->numbers[i].end());
    if (kinds[i] == Kind::Numbers)
      continue;
    std::vector<std::string> cells;
    for (const Row *row : others)
      cells.push_back(cellOf(*row, i, /*general=*/false));
    auto number = [](const std::string &text) { return std::strtod(text.c_str(), nullptr); };
    auto [least, most] = std::minmax_element(cells.begin(), cells.end(),
                                             [&](const auto &a, const auto &b) { return number(a) < number(b); });
    bool isNumber = StringRef(titles[i]).ends_with(">");
    if (*least != *most)
      result.cells[i] = isNumber ? *least + " to " + *most : "";
    else if (llvm::any_of(cells, [&](const std::string &cell) { return cell != cells.front(); }))
      result.cells[i].clear();
    else
      result.cells[i] = cells.front();
    result.numbers[i].clear();
  }
  return result;
}

void FoldedTable::condense(size_t group, size_t by) {
  byKey.clear();
  StringMap<std::vector<size_t>> members;
  for (size_t i = 0; i < rows.size(); ++i)
    members[rows[i].cells[group]].push_back(i);
  std::vector<Row> kept;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<size_t> &all = members[rows[i].cells[group]];
    if (all.size() <= kMostRowsOfGroup) {
      kept.push_back(rows[i]);
      continue;
    }
    auto amount = [&](size_t row) { return std::strtod(cellOf(rows[row], by, false).c_str(), nullptr); };
    size_t most = *std::max_element(all.begin(), all.end(), [&](size_t a, size_t b) { return amount(a) < amount(b); });
    auto stays = [&](size_t row) { return row == all.front() || row == all.back() || row == most; };
    std::vector<const Row *> others;
    for (size_t row : all)
      if (!stays(row))
        others.push_back(&rows[row]);
    if (stays(i))
      kept.push_back(rows[i]);
    else if (others.front() == &rows[i])
      kept.push_back(joined(others));
  }
  rows = std::move(kept);
}

std::string FoldedTable::str(bool general) const {
  TextTable table(titles);
  for (const Row &row : rows) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < titles.size(); ++i)
      cells.push_back(cellOf(row, i, general));
    table.add(std::move(cells));
  }
  return table.str();
}
