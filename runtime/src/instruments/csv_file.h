// CsvFile: the metrics of a run as comma-separated values, a row a step and one an evaluation, for spreadsheets and
// pandas. Columns are those of the table of metrics, whatever the run: what a row has none of is empty, and what is not
// finite is nan, inf or -inf.
#ifndef HYCRT_SRC_INSTRUMENTS_CSV_FILE_H_
#define HYCRT_SRC_INSTRUMENTS_CSV_FILE_H_

#include <memory>
#include <string>
#include <utility>

#include "instruments/line_file.h"
#include "instruments/sink.h"

namespace hycrt {

class CsvFile : public Sink {
 public:
  // Whether what is in the file is of a run before, or of the one that goes on. Rows of steps that are done again make
  // place for the new ones. A file with another first line is refused and stays as it is; one that is not a regular
  // file (a pipe, a device) gets the rows.
  enum class Mode { kAnew, kGoesOn };
  static Result<std::unique_ptr<CsvFile>> open(const std::string& path, Mode mode);
  // A file that was not there before and has got nothing is gone.
  ~CsvFile() override;

  // The row can be read when this returns.
  Status step(const StepRecord& record) override;

  // The first line, with its end.
  static const std::string& header();

 private:
  explicit CsvFile(LineFile file) : file_(std::move(file)) {}
  Status takeExisting(Mode mode);
  Status begin(const StepRecord& record);
  Status dropFrom(const StepRecord& record);

  LineFile file_;
  bool hasRows_ = false;  // which may be those of steps that are done again
  bool hasBegun_ = false;
  int64_t lastStep_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_CSV_FILE_H_
