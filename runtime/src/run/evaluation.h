// Evaluation: the mean loss over a dataset, in file order and once, under the parameters as they are.
#ifndef HYCRT_SRC_RUN_EVALUATION_H_
#define HYCRT_SRC_RUN_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <string>

#include "hycrt/context.h"
#include "io/dataset.h"
#include "run/stage_runner.h"

namespace hycrt {

// What has been evaluated so far.
struct EvaluationSums {
  int64_t batches = 0;  // global batches
  double lossSum = 0;
  int64_t counted = 0;      // tokens, or samples, that the loss counts
  int64_t correct = -1;     // of those; -1: the program does not tell
  int64_t lastCounted = 0;  // of the last batch
  double milliseconds = 0;  // of all batches
  double lastMilliseconds = 0;

  double loss() const { return lossSum / static_cast<double>(counted); }
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(counted); }
};

class Evaluation {
 public:
  // By the program's entry that evaluates; of a program without one by the forward half of its first entry. `flag` is
  // the option that gave the data's `path`. `mostBatches` 0: all. Data errors where the data fills no global batch.
  static Result<Evaluation> create(Context& ctx, Dataset& data, const std::string& flag, const std::string& path,
                                   int64_t mostBatches, Trace* trace);

  int64_t batches() const { return batches_; }
  int64_t samplesLeftOut() const { return leftOut_; }
  int64_t globalBatch() const { return globalBatch_; }

  // Over all batches; `afterEach` hears of each, and says whether the next follows. Whatever ctx.step() was, it is
  // another afterwards.
  Result<EvaluationSums> run(const std::function<Result<bool>(const EvaluationSums&)>& afterEach);

 private:
  Evaluation(Context& ctx, const Entry& entry, Dataset& data, Trace* trace)
      : ctx_(ctx), runner_(ctx, entry, &data, trace) {}

  Context& ctx_;
  StageRunner runner_;
  int64_t batches_ = 0, leftOut_ = 0, globalBatch_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_EVALUATION_H_
