// Rows, and where those of a run that goes on belong.
#include "instruments/csv_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include "hycrt/printable.h"
#include "instruments/metrics.h"

namespace hycrt {
namespace {

constexpr size_t kReadBytes = 1 << 16;
constexpr size_t kMostShown = 80;  // of a line that is not ours

char* writeNumber(char* at, char* end, const Metric<StepRecord>& metric, double value) {
  if (metric.isWhole) return std::to_chars(at, end, static_cast<int64_t>(value)).ptr;
  return std::to_chars(at, end, value).ptr;  // nan, inf and -inf as pandas reads them
}

// Of a row, whose first column it is; -1: none.
int64_t stepOf(std::string_view row) {
  int64_t step = -1;
  const std::from_chars_result read = std::from_chars(row.data(), row.data() + row.size(), step);
  return read.ec == std::errc() && read.ptr < row.data() + row.size() && *read.ptr == ',' ? step : -1;
}

}  // namespace

const std::string& CsvFile::header() {
  static const std::string line = [] {
    std::string names;
    for (const Metric<StepRecord>& metric : stepMetrics()) {
      if (isColumn(metric)) names += (names.empty() ? "" : ",") + std::string(metric.key);
    }
    return names + "\n";
  }();
  return line;
}

Result<std::unique_ptr<CsvFile>> CsvFile::open(const std::string& path, Mode mode) {
  Result<LineFile> file = LineFile::open(path, "CSV file");
  if (!file.ok()) return file.status();
  std::unique_ptr<CsvFile> csv(new CsvFile(std::move(*file)));
  if (csv->file_.isRegular() && !csv->file_.wasMade()) HYCRT_RETURN_IF_ERROR(csv->takeExisting(mode));
  return csv;
}

CsvFile::~CsvFile() {
  if (file_.wasMade() && !hasBegun_) unlink(file_.path().c_str());
}

// Nobody's table, notes or weights are taken for a run's.
Status CsvFile::takeExisting(Mode mode) {
  std::string start(header().size(), '\0');
  const Result<size_t> count = file_.read(start.data(), start.size(), 0);
  if (!count.ok()) return count.status();
  start.resize(*count);
  if (start.empty()) return {};
  if (start != header()) {
    const std::string line = start.substr(0, std::min(start.find('\n'), kMostShown));
    return dataError("'" + file_.path() + "' is there and is not the CSV file of a run: it begins with '" +
                     printable(line) + "', expected '" + header().substr(0, kMostShown) +
                     "…'; give --csv another name");
  }
  hasRows_ = mode == Mode::kGoesOn;
  return {};
}

// Not before there is something to write: a run that fails before its first step leaves what was there.
Status CsvFile::begin(const StepRecord& record) {
  hasBegun_ = true;
  if (file_.isRegular() && hasRows_) return dropFrom(record);
  if (file_.isRegular()) HYCRT_RETURN_IF_ERROR(file_.cut(0));
  return file_.append(header().data(), header().size());
}

// Of rows that lie in front of `record`, the file keeps all; what an end in the middle of a row has left goes, too.
Status CsvFile::dropFrom(const StepRecord& record) {
  std::vector<char> bytes(kReadBytes);
  int64_t offset = static_cast<int64_t>(header().size());
  const int64_t first = record.batches > 0 ? record.step + 1 : record.step;
  for (bool isOver = false; !isOver;) {
    const Result<size_t> count = file_.read(bytes.data(), bytes.size(), offset);
    if (!count.ok()) return count.status();
    const std::string_view text(bytes.data(), *count);
    size_t begin = 0;
    isOver = true;
    for (size_t end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
      const int64_t step = stepOf(text.substr(begin, end - begin));
      isOver = step < 0 || step >= first;
      if (isOver) break;
    }
    offset += static_cast<int64_t>(begin);
  }
  return file_.cut(offset);
}

Status CsvFile::step(const StepRecord& record) {
  if (!hasBegun_) {
    HYCRT_RETURN_IF_ERROR(begin(record));
  } else if (file_.isRegular() && record.batches == 0 && record.step <= lastStep_) {
    HYCRT_RETURN_IF_ERROR(dropFrom(record));  // the ranks were started again
  }
  lastStep_ = record.step;
  std::array<char, 1024> row;  // of 17 columns of at most 25 characters
  char* at = row.data();
  char* const end = at + row.size();
  for (const Metric<StepRecord>& metric : stepMetrics()) {
    if (at != row.data() && isColumn(metric)) *at++ = ',';
    if (metric.isIn(record)) at = writeNumber(at, end, metric, metric.valueOf(record));
  }
  *at++ = '\n';
  return file_.append(row.data(), static_cast<size_t>(at - row.data()));
}

}  // namespace hycrt
