// Tables of programs that are put together at run time; those of compiled ones are constants.
#ifndef HYCRT_SRC_BASE_TABLE_OF_H_
#define HYCRT_SRC_BASE_TABLE_OF_H_

#include <cstdint>
#include <vector>

#include "hycrt/program.h"

namespace hycrt {

// Of rows that outlive it.
template <typename T>
Table<T> tableOf(const std::vector<T>& rows) {
  Table<T> table;
  table.rows = rows.data();
  table.size = static_cast<int64_t>(rows.size());
  return table;
}

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_TABLE_OF_H_
