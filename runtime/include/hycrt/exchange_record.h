// What a rank has waited for exchanges of one kind and cause, since it began. Exchanges of layers that differ only in
// their number are one: "transformer.h.*.mlp.c_proj".
#ifndef HYCRT_EXCHANGE_RECORD_H_
#define HYCRT_EXCHANGE_RECORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "hycrt/status.h"

namespace hycrt {

struct ExchangeRecord {
  std::string kind;   // "all_reduce"; "transfer" between stages
  std::string over;   // the group: "tp"; of a transfer the other stage
  std::string cause;  // the op that asked for it
  int64_t times = 0;
  double seconds = 0;      // that its computation did not hide
  double lateSeconds = 0;  // the part of them that it waited for ranks which had not come
};

// {"exchange":{"kind":…,"over":…,"cause":…,"times":…,"seconds":…,"late_seconds":…}} and a line end, into memory of the
// caller: a step must not allocate. What is too long is cut. Gives the length.
using ExchangeLine = std::array<char, 1024>;
size_t writeJson(const ExchangeRecord& record, ExchangeLine* line);
Result<ExchangeRecord> parseExchangeRecord(std::string_view json);
// Whether a line is one.
bool isExchangeRecord(std::string_view json);

}  // namespace hycrt

#endif  // HYCRT_EXCHANGE_RECORD_H_
