// Which rows of the program's tables are one record.
#include "run/exchange_report.h"

#include <algorithm>
#include <string>

#include "base/clock.h"

namespace hycrt {
namespace {

constexpr int64_t kPeriodNs = 1000000000;

// "h.*.mlp (partial over tp)" of "h.3.mlp (partial over tp)": every part between dots and spaces that is a number
// alone.
std::string withoutNumbers(const std::string& name) {
  std::string folded;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find_first_of(". ", begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const bool isNumber = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    folded += isNumber ? "*" : part;
    if (end < name.size()) folded += name[end];
    begin = end + 1;
  }
  return folded;
}

}  // namespace

void ExchangeReport::open(const Program& program) {
  const auto add = [this](const std::string& kind, const std::string& over, const std::string& cause) {
    size_t place = 0;
    while (place < records_.size() &&
           !(records_[place].kind == kind && records_[place].over == over && records_[place].cause == cause)) {
      ++place;
    }
    if (place == records_.size()) records_.push_back({kind, over, cause});
    recordOf_.push_back(place);
  };
  for (const CollectiveDesc& row : program.collectives) {
    add(factsOf(row.kind).name, program.groups[row.group].name, withoutNumbers(row.name));
  }
  for (const TransferDesc& row : program.transfers) {
    add("transfer", "stage " + std::to_string(row.peerStage), withoutNumbers(row.name));
  }
}

Status ExchangeReport::tell(const Exchanger& exchanger, RunEvents& events, bool isLast) {
  const std::vector<ExchangeTime>* const times = exchanger.exchangeTimes();
  const int64_t now = monotonicNs();
  if (!times || (!isLast && now - toldNs_ < kPeriodNs)) return {};
  toldNs_ = now;
  for (ExchangeRecord& record : records_) record.times = 0, record.seconds = record.lateSeconds = 0;
  for (size_t row = 0; row < recordOf_.size(); ++row) {
    ExchangeRecord& record = records_[recordOf_[row]];
    record.times += (*times)[row].times;
    record.seconds += static_cast<double>((*times)[row].ns) * 1e-9;
    record.lateSeconds += static_cast<double>((*times)[row].lateNs) * 1e-9;
  }
  for (const ExchangeRecord& record : records_) {
    if (record.times > 0) HYCRT_RETURN_IF_ERROR(events.exchange(record));
  }
  return {};
}

}  // namespace hycrt
