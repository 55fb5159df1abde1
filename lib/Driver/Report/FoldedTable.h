// FoldedTable: a table in which rows that differ only in which layer or stage they are of are one row, so that a model
// of a hundred layers on a thousand stages is as readable as one of two.
//
//   asked for by                       bytes  count          asked for by             bytes  count
//   transformer.h.0.attn.c_proj.einsum   512      1    →     transformer.h.*.attn…      512      2
//   transformer.h.1.attn.c_proj.einsum   512      1
#ifndef HYC_LIB_DRIVER_REPORT_FOLDEDTABLE_H
#define HYC_LIB_DRIVER_REPORT_FOLDEDTABLE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace hyc {

/// A name around its first part that is a number alone: "h.", 3 and ".attn" of "h.3.attn".
struct NumberedName {
  std::string before, after;
  int64_t number = -1; ///< -1: it has none, and all of it is `before`

  static NumberedName of(llvm::StringRef name);
};

/// "0 to 14, 16": few words for many numbers.
std::string describeNumbers(const std::set<int64_t> &numbers);

/// "{dp} stages [0 to 15]" of "{dp} stages [0, 1, 2, …, 15]": with ranges for a list of more than two.
std::string shortenNumbers(llvm::StringRef text);

class FoldedTable {
public:
  /// As TextTable's titles, '>' aligning to the right. What comes first in a title says how its cells become one, and
  /// is not printed: '*' a name whose number does not matter, '#' a name whose numbers are listed, '+' a count that is
  /// added up. Rows that differ in any other cell stay apart.
  explicit FoldedTable(std::vector<std::string> titles);

  void add(std::vector<std::string> cells);
  bool empty() const { return rows.empty(); }
  size_t size() const { return rows.size(); }

  /// Rows with the most in column `by`, a '+', first.
  void sortBy(size_t by);
  /// Of rows with one text in column `group` at most four stay: the first, the last, the one that has the most in
  /// column `by`, and one for all others, whose cells tell the least and the most. For tables without a '+'.
  void condense(size_t group, size_t by);
  /// Takes out all rows but the first `count`; gives what these had in column `by`, a '+', added up.
  int64_t truncate(size_t count, size_t by);

  /// `general`: with '*' for numbers of names in rows of one member, too.
  std::string str(bool general = false) const;

private:
  enum class Kind { Plain, Name, Numbers, Sum };
  struct Row {
    std::vector<std::string> cells;         ///< of the first member
    std::vector<std::set<int64_t>> numbers; ///< of all members, by column
    std::vector<int64_t> sums;              ///< by column
  };
  std::string cellOf(const Row &row, size_t column, bool general) const;
  Row joined(const std::vector<const Row *> &others) const;

  std::vector<std::string> titles;
  std::vector<Kind> kinds;
  std::vector<Row> rows;
  llvm::StringMap<size_t> byKey;
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_REPORT_FOLDEDTABLE_H
