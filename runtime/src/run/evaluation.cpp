// Whole global batches, one after the other; the last one that is not full is left out.
#include "run/evaluation.h"

#include <algorithm>

#include "base/clock.h"

namespace hycrt {

Result<Evaluation> Evaluation::create(Context& ctx, Dataset& data, const std::string& flag, const std::string& path,
                                      int64_t mostBatches, Trace* trace) {
  const Program& program = ctx.program();
  const Entry* const entry = findEntry(program, kEvaluateEntry);
  Evaluation evaluation(ctx, entry ? *entry : program.entries[0], data, trace);
  const BatchDesc& batch = program.batch;
  const int64_t samples = data.sampleCount(),
                size = batch.samples * batch.microBatches * sizeOf(program.mesh, program.mesh.batch);
  evaluation.globalBatch_ = size;
  evaluation.batches_ = samples / size;
  evaluation.leftOut_ = samples % size;
  if (evaluation.batches_ == 0) {
    return dataError("'" + path + "' (" + flag + ") holds " + std::to_string(samples) +
                     " samples, expected at least one global batch of " + std::to_string(size) +
                     "; compile with a smaller --micro-batch or --grad-accum");
  }
  if (mostBatches > 0) evaluation.batches_ = std::min(evaluation.batches_, mostBatches);
  return evaluation;
}

Result<EvaluationSums> Evaluation::run(const std::function<Result<bool>(const EvaluationSums&)>& afterEach) {
  EvaluationSums sums;
  for (int64_t i = 0; i < batches_; ++i) {
    const int64_t begin = monotonicNs();
    ctx_.setStep(i);
    HYCRT_RETURN_IF_ERROR(runner_.evaluateBatch());
    const StepResult result = runner_.result();
    sums.batches = i + 1;
    sums.lossSum += result.lossSum;
    sums.counted += result.tokenCount;
    sums.lastCounted = result.tokenCount;
    if (result.correctCount >= 0) sums.correct = std::max<int64_t>(sums.correct, 0) + result.correctCount;
    sums.lastMilliseconds = static_cast<double>(monotonicNs() - begin) * 1e-6;
    sums.milliseconds += sums.lastMilliseconds;
    const Result<bool> goesOn = afterEach(sums);
    if (!goesOn.ok()) return goesOn.status();
    if (!*goesOn) break;
  }
  return sums;
}

}  // namespace hycrt
