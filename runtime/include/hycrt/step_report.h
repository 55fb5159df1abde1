// What is told about a step: a JSON object per line for programs, an aligned line for people.
#ifndef HYCRT_STEP_REPORT_H_
#define HYCRT_STEP_REPORT_H_

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hycrt/status.h"

namespace hycrt {

struct StepRecord {
  int64_t step = 0;  // from 1
  int64_t steps = 0;
  int64_t size = 0;  // that the step was run at, of a program of several sizes; 0: there is one
  double loss = 0;   // mean over the tokens counted in the global batch
  double gradNorm = 0;
  double learningRate = 0;
  std::optional<double> momentum;  // where it cycles
  double milliseconds = 0;
  double tokensPerSecond = 0;
  double samplesPerSecond = 0;  // of samples that are no sequences, told in the place of tokens/s; 0: they are
  double etaSeconds = 0;
  // Of rank 0: how long it waited for exchanges, of that for ranks that had not come, and for which of these longest.
  // Below 0: not told, as of a single rank, or where the host does not wait.
  double exchangeMilliseconds = -1, lateMilliseconds = -1;
  int64_t lateRank = -1;
  int64_t residentBytes = 0, plannedBytes = 0;  // of rank 0, after the step; 0: not told, as of programs for GPUs
  double lossScale = 0;                         // that the step was computed with; 0: the loss is not scaled
  int64_t skipped = 0;                          // steps whose update did not happen, since the first
  // A batch of an evaluation: `loss` is the mean over everything so far; there is no gradient and no learning rate.
  bool evaluates = false;
  int64_t batches = 0;  // of an evaluation after step `step` of a training: global batches of the held-out data
  std::optional<double> accuracy;  // of the same: the part that was predicted right, where the program counts it
};

// {"step":1,"steps":20,"loss":…,"grad_norm":…,"lr":…,"ms":…,"tokens_per_s":…,"eta_s":…,"exchange_ms":…,
// "late_ms":…,"late_rank":…,"resident_bytes":…,"planned_bytes":…} without a line end; after "lr"
// "momentum" where it cycles, and at the end `"loss_scale":65536.0,"skipped":0` with a loss scale and "size" where
// there are several. Numbers are the shortest that read back as the same double; an evaluation has "perplexity", e to
// the loss, for "grad_norm" and "lr", and "accuracy" where it is known; one between steps has
// {"step":…,"steps":…,"evaluate_loss":…,
// "evaluate_perplexity":…,"evaluate_accuracy":…,"evaluate_batches":…,"ms":…,"tokens_per_s":…}, so that "loss" stays
// training's. Samples that are no sequences, images among them, have "samples_per_s" for "tokens_per_s". A value that
// is not finite is null, since JSON has no word for it.
std::string toJson(const StepRecord& record);

// The same with a line end, into memory of the caller: a step must not allocate. Gives the length.
using JsonLine = std::array<char, 768>;
size_t writeJson(const StepRecord& record, JsonLine* line);
Result<StepRecord> parseStepRecord(std::string_view json);

// step  12/100   loss 5.1235   grad norm 1.234e+00   lr 1.000e-03   123.4 ms   12345 tokens/s   left 0:01:23
// step 100/1000   evaluation over 12 batches   loss 4.98   perplexity 145.47   accuracy  41.52 %   123.4 ms   …
// batch  2/10   loss so far 5.1235   perplexity 167.91   accuracy  41.52 %   123.4 ms   12345 tokens/s   left 0:00:02
std::string toLine(const StepRecord& record);

// The same in 80 columns: 12/100 loss 5.1235 norm 1.23e+00 lr 1.00e-03 123.4 ms 12345 tok/s 0:01:23
std::string toShortLine(const StepRecord& record);

// "   12345 tokens/s", or samples/s; "0:01:23".
std::string rateOf(const StepRecord& record);
std::string duration(double seconds);

class LineFile;

// The JSON lines of a run in a file. Every line is there when append returns, so that a reader sees a run while it goes
// on.
class StepLog {
 public:
  // Whether the file is emptied with the first line, or gets the lines of a run that goes on behind those that it has.
  enum class Mode { kAnew, kAppend };
  static Result<std::unique_ptr<StepLog>> open(const std::string& path, Mode mode);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;
  Status append(const StepRecord& record);
  // A line without its end.
  Status append(const std::string& line);
  // A line that says nothing by itself: it waits for another one, and is not written without.
  Status appendBehind(const std::string& line);

 private:
  StepLog(std::unique_ptr<LineFile> file, Mode mode);
  Status begin();

  std::unique_ptr<LineFile> file_;
  Mode mode_;
  bool hasBegun_ = false;
  std::string held_;
};

class LiveView;

// Shows a run on `out`: where that is a terminal some lines that are drawn anew in their place, one where it has little
// room; a line a step otherwise. Other output goes between through clear(), so that it does not land in the middle.
class StepDisplay {
 public:
  explicit StepDisplay(FILE* out);
  ~StepDisplay();
  void show(const StepRecord& record);
  void clear();
  // What is not drawn yet, where nobody takes it.
  void leaveOut();

 private:
  void erase();
  void draw();
  std::vector<std::string> linesNow() const;

  FILE* out_;
  bool live_;
  bool coloured_;
  std::unique_ptr<LiveView> view_;
  StepRecord newest_;
  size_t drawn_ = 0;  // lines on the terminal, the last of which has not ended
  bool isBehind_ = false;
  int64_t drawnNs_ = 0;
};

// Time left, from the mean of the last steps (the very first, which warms everything up, is left out once others came).
class RemainingTime {
 public:
  double after(double milliseconds, int64_t stepsLeft);

 private:
  static constexpr size_t kRecentSteps = 16;
  std::array<double, kRecentSteps> recent_{};
  size_t count_ = 0;  // steps seen; the ring holds the last of them
  bool warm_ = false;
};

}  // namespace hycrt

#endif  // HYCRT_STEP_REPORT_H_
