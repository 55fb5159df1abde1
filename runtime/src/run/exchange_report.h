// ExchangeReport: tells what a rank waits for exchanges, by their kinds and causes, about once a second.
#ifndef HYCRT_SRC_RUN_EXCHANGE_REPORT_H_
#define HYCRT_SRC_RUN_EXCHANGE_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/exchanger.h"
#include "hycrt/exchange_record.h"
#include "hycrt/program.h"
#include "hycrt/run.h"

namespace hycrt {

class ExchangeReport {
 public:
  // Makes room for all that will be told: a step allocates nothing.
  void open(const Program& program);

  // After a step, and with `isLast` after the last: tells then in any case.
  Status tell(const Exchanger& exchanger, RunEvents& events, bool isLast);

 private:
  std::vector<ExchangeRecord> records_;
  std::vector<size_t> recordOf_;  // by row: collectives, then transfers
  int64_t toldNs_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_EXCHANGE_REPORT_H_
