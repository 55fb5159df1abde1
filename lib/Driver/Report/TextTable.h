// TextTable: rows of cells, printed with aligned columns.
#ifndef HYC_LIB_DRIVER_REPORT_TEXTTABLE_H
#define HYC_LIB_DRIVER_REPORT_TEXTTABLE_H

#include <string>
#include <vector>

namespace hyc {

class TextTable {
public:
  /// Columns whose title ends in '>' are aligned to the right; the sign is not printed.
  explicit TextTable(std::vector<std::string> titles);
  void add(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }
  bool empty() const { return rows.size() == 1; }
  std::string str() const;

private:
  std::vector<bool> right;
  std::vector<std::vector<std::string>> rows; ///< titles first
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_REPORT_TEXTTABLE_H
