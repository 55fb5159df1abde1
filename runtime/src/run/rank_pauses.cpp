// What a rank does between two steps: checkpoints, copies, comparisons, evaluations, and whether it goes on.
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "checkpoint/replica_check.h"
#include "run/nonfinite.h"
#include "run/rank_run.h"

namespace hycrt {

// All ranks come to the same; none of them ends before rank 0 has told of the step.
// A checkpoint of before is what the user goes on from.
Status RankRun::checkFinite(const Context& ctx, const StepRecord& record, int64_t counted) {
  if (options_.allowNonfinite) return {};
  Status status = checkFiniteStep(record, counted, program_);
  if (!status.ok()) HYCRT_RETURN_IF_ERROR(checkpoints_.finish(ctx));
  if (!status.ok()) HYCRT_RETURN_IF_ERROR(exchanger_->barrier());
  return status;
}

// Nobody begins to write before everybody's part is known to be sound. Of a run that may diverge nothing is lost
// where nothing was.
Status RankRun::checkWeights(const Context& ctx) {
  // By then rank 0 has told of the last step, which hyc-run reads no more once a rank has ended with an error.
  HYCRT_RETURN_IF_ERROR(exchanger_->barrier());
  if (!options_.allowNonfinite || access(options_.saveWeights.c_str(), F_OK) == 0) {
    HYCRT_RETURN_IF_ERROR(checkFiniteWeights(ctx, options_.saveWeights));
  }
  return exchanger_->barrier();
}

void RankRun::noteLeftOut(const Evaluation& evaluation, const Dataset& data) {
  if (environment_.rank != 0 || evaluation.samplesLeftOut() == 0) return;
  events_.note("evaluation: the last " + std::to_string(evaluation.samplesLeftOut()) + " of " +
               std::to_string(data.sampleCount()) + " samples fill no global batch of " +
               std::to_string(evaluation.globalBatch()) + " and are left out");
}

Status RankRun::openEvaluation(Context& ctx) {
  if (!heldOut_) return {};
  if (!findEntry(program_, kEvaluateEntry)) {
    return usageError(std::string("--evaluate-data is given, but program '") + program_.name +
                      "' has no entry that evaluates; compile with --entry train,evaluate");
  }
  Result<Evaluation> evaluation = Evaluation::create(ctx, *heldOut_, "--evaluate-data", options_.evaluateData,
                                                     options_.evaluateBatches, measurement_.trace());
  if (!evaluation.ok()) return evaluation.status();
  evaluation_.emplace(std::move(*evaluation));
  if (options_.evaluateBatches == 0) noteLeftOut(*evaluation_, *heldOut_);
  return {};
}

// What a checkpoint would hold is looked at before it is written.
bool RankRun::verifiesAfter(int64_t step, bool writes) const {
  return options_.verifyStates > 0 && (writes || (step + 1) % options_.verifyStates == 0);
}

Status RankRun::verifyStates(Context& ctx, int64_t step) {
  const StepTimes::Between between(times_, *exchanger_);
  HYCRT_RETURN_IF_ERROR(readBackStates());
  Status status = checkReplicas(ctx, step + 1);
  // All ranks know; the checkpoint of before is one of states that agreed.
  if (!status.ok() && status.code() != StatusCode::kPeerLost) HYCRT_RETURN_IF_ERROR(checkpoints_.finish(ctx));
  if (!status.ok()) return status;
  if (environment_.rank != 0) return {};
  const double seconds = static_cast<double>(between.nanoseconds()) * 1e-9;
  return events_.happened({RunEvent::Kind::kVerify, step + 1, "", seconds, ""});
}

// What any rank is asked for, so that all do it after the same step; after the last all is done anyway.
// The checkpoint that is being written gets on by it, too.
Result<uint32_t> RankRun::wishesAfter(const Context& ctx, int64_t step) {
  if (options_.checkpoint.empty() || step + 1 == options_.steps) return uint32_t{0};
  const StepTimes::Between between(times_, *exchanger_);
  return wishesNow(ctx);
}

// Within such a time.
Result<uint32_t> RankRun::wishesNow(const Context& ctx) {
  uint32_t own = events_.wishes();
  if (timeLimit_.isUp(checkpoints_.isWriting())) own |= kTimeIsUp;
  const Result<const uint64_t*> all = exchanger_->share(own | checkpoints_.word());
  if (!all.ok()) return all.status();
  for (int rank = 0; rank < environment_.worldSize; ++rank) own |= static_cast<uint32_t>((*all)[rank]);
  HYCRT_RETURN_IF_ERROR(checkpoints_.advance(ctx, *all));
  return own;
}

// Every rank has told of it before any is gone.
Status RankRun::endEarly(int64_t step, uint32_t wishes) {
  const std::string cause = causeOfEnd(wishes);
  if (environment_.rank == 0 && (wishes & (kEndRun | kTimeIsUp))) {
    events_.note("ends after step " + std::to_string(step + 1) + " (" + cause +
                 "), with status 75; with --resume auto the same command goes on");
  }
  HYCRT_RETURN_IF_ERROR(events_.happened({RunEvent::Kind::kEnd, step + 1, cause, 0, ""}));
  return exchanger_->barrier();
}

// Between two steps; what steps wait and take is told without it. One that comes due while another is being written
// waits for that; of the last the end of the run does.
Status RankRun::writeCheckpoint(Context& ctx, int64_t step, uint32_t wishes) {
  if (options_.checkpoint.empty()) return {};
  enter("writes a checkpoint");
  const StepTimes::Between between(times_, *exchanger_);
  HYCRT_RETURN_IF_ERROR(checkpoints_.finish(ctx));
  if (ctx.file()) copies_.awaitStates();
  HYCRT_RETURN_IF_ERROR(readBackStates());
  const bool isLast = step + 1 >= options_.steps, ends = wishes & kEndingWishes;
  const std::string cause = causeOfCheckpoint(wishes, options_, isLast);
  HYCRT_RETURN_IF_ERROR(checkpoints_.begin(ctx, step + 1, manifest_, options_, run_, cause, isLast || ends));
  return {};
}

// The one before is over (finishCopy). What lies on a disk or in the image of a device is read for one thing at a
// time.
Status RankRun::copyStates(Context& ctx, int64_t step) {
  enter("copies the states to another host");
  const StepTimes::Between between(times_, *exchanger_);
  if (ctx.file()) HYCRT_RETURN_IF_ERROR(checkpoints_.finish(ctx));
  HYCRT_RETURN_IF_ERROR(readBackStates());
  HYCRT_RETURN_IF_ERROR(copies_.begin(ctx, checkpoints_.describe(ctx, step + 1, manifest_, options_)));
  enter("trains");
  return {};
}

// Before a step is told after which the next copy is due, and the last: of what was told, one step at most is in
// none.
Status RankRun::finishCopy(const Context& ctx, int64_t step) {
  if (!copies_.isDueAfter(step) && step + 1 < options_.steps) return {};
  const StepTimes::Between between(times_, *exchanger_);
  HYCRT_RETURN_IF_ERROR(copies_.finish(ctx));
  return {};
}

// Where it is due, of the steps so far; the others run as if nobody had asked.
Status RankRun::writeMeasurement(StageRunner& runner, int64_t step) {
  if (!measurement_.isDueAfter(step - checkpoints_.firstStep()) || step + 1 >= options_.steps) return {};
  enter("writes what it measured");
  const StepTimes::Between between(times_, *exchanger_);
  HYCRT_RETURN_IF_ERROR(
      measurement_.writeProfile(*exchanger_, environment_.worldSize, run_, profileFacts(), runner.note));
  runner.measureBy(nullptr);
  runner.holdLargestSize(false);
  if (recordsSteps_) runner.recordSteps(options_.cudaGraph == StepRecording::kOn);
  enter("trains");
  if (environment_.rank != 0) return {};
  const double seconds = static_cast<double>(between.nanoseconds()) * 1e-9;
  return events_.happened({RunEvent::Kind::kMeasure, step + 1, "", seconds, options_.profile});
}

// The last evaluation waits until the checkpoint and the weights are written.
bool RankRun::evaluatesAfter(int64_t step) const {
  return evaluation_ && step + 1 < options_.steps && options_.evaluateEvery > 0 &&
         (step + 1) % options_.evaluateEvery == 0;
}

// Whatever is due after a step that changes no states, and all that ranks are asked for by then.
Result<uint32_t> RankRun::measureAndEvaluate(const Context& ctx, StageRunner& runner, int64_t step) {
  const Result<uint32_t> wishes = wishesAfter(ctx, step);
  if (!wishes.ok() || *wishes & kEndingWishes) return wishes;
  HYCRT_RETURN_IF_ERROR(writeMeasurement(runner, step));
  if (!evaluatesAfter(step)) return wishes;
  const Result<uint32_t> meanwhile = evaluateBetween(ctx, step);
  return meanwhile.ok() ? Result<uint32_t>(*wishes | *meanwhile) : meanwhile;
}

// There is time for one that takes as long as the longest, or nobody knows yet how long one takes; all ranks come to
// the same.
Result<bool> RankRun::fitsEvaluation(int64_t step) {
  if (options_.checkpoint.empty() || step + 1 >= options_.steps) return true;
  const Result<const uint64_t*> all = exchanger_->share(timeLimit_.fitsEvaluation(checkpoints_.isWriting()));
  if (!all.ok()) return all.status();
  bool fits = true;
  for (int rank = 0; rank < environment_.worldSize; ++rank) fits &= (*all)[rank] != 0;
  if (fits || hasLeftOutEvaluation_) return fits;
  hasLeftOutEvaluation_ = true;
  if (environment_.rank == 0) {
    events_.note("evaluations are left out from step " + std::to_string(step + 1) +
                 " on: what the longest has taken does not fit into the time that is left");
  }
  return false;
}

// Between two steps, over the held-out data, by parameters that nobody changes meanwhile; what ranks are asked for
// meanwhile. One that is asked to end ends it, and then there is no figure; that of the last step is whole.
Result<uint32_t> RankRun::evaluateBetween(const Context& ctx, int64_t step) {
  enter("evaluates between two steps");
  const StepTimes::Between between(times_, *exchanger_);
  const Result<bool> fits = fitsEvaluation(step);
  if (!fits.ok()) return fits.status();
  if (!*fits) return uint32_t{0};
  uint32_t wishes = 0;
  const auto asksForNoEnd = [&](const EvaluationSums&) -> Result<bool> {
    const bool asks = !options_.checkpoint.empty() && step + 1 < options_.steps;
    const Result<uint32_t> more = asks ? wishesNow(ctx) : Result<uint32_t>(uint32_t{0});
    if (!more.ok()) return more.status();
    wishes |= *more;
    return (wishes & kEndingWishes) == 0;
  };
  const Result<EvaluationSums> sums = evaluation_->run(std::cref(asksForNoEnd));  // by reference: nothing is allocated
  if (!sums.ok()) return sums.status();
  if (sums->batches < evaluation_->batches()) {
    if (environment_.rank == 0) {
      events_.note("the evaluation after step " + std::to_string(step + 1) + " was ended after " +
                   std::to_string(sums->batches) + " of " + std::to_string(evaluation_->batches()) + " batches (" +
                   causeOfEnd(wishes) + "), and gives no figure");
    }
    return wishes;
  }
  timeLimit_.evaluationTook(sums->milliseconds / 1e3);
  StepRecord record;
  record.evaluates = true;
  record.step = step + 1;
  record.steps = std::max(options_.steps, step + 1);
  record.batches = sums->batches;
  record.loss = sums->loss();
  if (sums->correct >= 0) record.accuracy = sums->accuracy();
  record.milliseconds = sums->milliseconds;
  setRate(sums->counted, sums->batches * evaluation_->globalBatch(), &record);
  HYCRT_RETURN_IF_ERROR(tell(record));
  HYCRT_RETURN_IF_ERROR(checkFinite(ctx, record, sums->counted));
  return wishes;
}

}  // namespace hycrt
