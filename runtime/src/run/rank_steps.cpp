// A rank's steps, and what is told of them.
#include <cstdio>

#include "base/clock.h"
#include "base/whereabouts.h"
#include "io/initial_values.h"
#include "run/rank_run.h"
#include "run/state_file.h"
#include "run/step_observer.h"
#include "run/tier_report.h"

namespace hycrt {
namespace {

constexpr int64_t kKeptImageBytes = int64_t{1} << 20;

}  // namespace

Status RankRun::train() {
  Context ctx(program_, at_, memory_->arenas(), exchanger_, file_.get(), accelerator_.get());
  enter("loads the states");
  ctx.setSeed(options_.seed);
  ctx.setPoisons(options_.poison);
  HYCRT_RETURN_IF_ERROR(fillMemory(ctx));
  HYCRT_RETURN_IF_ERROR(events_.begin());
  if (environment_.rank == 0) HYCRT_RETURN_IF_ERROR(checkpoints_.tellResume());
  measurement_.begin(program_, *exchanger_, accelerator_.get());
  StageRunner runner(ctx, program_.entries[0], data_.get(), measurement_.trace());
  measure(runner);
  runner.takeShares(shares_, checkpoints_.itemShift(shares_.samples()));
  runner.note = [this](const std::string& line) { events_.note(line); };
  if (recordsSteps_ && !measurement_.profile()) runner.recordSteps(options_.cudaGraph == StepRecording::kOn);
  HYCRT_RETURN_IF_ERROR(checkpoints_.open(ctx, options_, environment_.ranksHere));
  HYCRT_RETURN_IF_ERROR(copies_.open(ctx));
  if (environment_.rank == 0 && environment_.worldSize > 1) exchanges_.open(program_);
  const StepObserver observer;
  HYCRT_RETURN_IF_ERROR(startTogether());
  enter(options_.evaluate ? "evaluates" : "trains");
  if (options_.evaluate) return evaluate(ctx);
  runner.loader().readAhead();
  HYCRT_RETURN_IF_ERROR(openEvaluation(ctx));
  const int64_t first = checkpoints_.firstStep();
  for (int64_t step = first; step < options_.steps; ++step) {
    measurement_.stepBegins(step - first);
    if (step == first + 1) times_.begin(*exchanger_);
    observer.stepBegins(step);
    HYCRT_RETURN_IF_ERROR(runStep(ctx, runner, step));
    const Result<uint32_t> wishes = measureAndEvaluate(ctx, runner, step);
    if (!wishes.ok()) return wishes.status();
    const bool ends = *wishes & kEndingWishes;
    const bool writes = *wishes || checkpoints_.isDueAfter(step, options_), copies = copies_.isDueAfter(step);
    if (verifiesAfter(step, writes || copies)) HYCRT_RETURN_IF_ERROR(verifyStates(ctx, step));
    if (writes) HYCRT_RETURN_IF_ERROR(writeCheckpoint(ctx, step, *wishes));
    if (ends) return endEarly(step, *wishes);
    if (copies) HYCRT_RETURN_IF_ERROR(copyStates(ctx, step));
  }
  // What the checkpoint has is written again where no step is left: it can have another layout.
  if (first >= options_.steps) HYCRT_RETURN_IF_ERROR(writeCheckpoint(ctx, first - 1, 0));
  observer.stepBegins(options_.steps);
  HYCRT_RETURN_IF_ERROR(saveTrained(ctx));
  if (evaluation_) HYCRT_RETURN_IF_ERROR(evaluateBetween(ctx, std::max(first, options_.steps) - 1).status());
  HYCRT_RETURN_IF_ERROR(tellOfTiers());
  enter("ends the run");
  HYCRT_RETURN_IF_ERROR(reportMemory());
  HYCRT_RETURN_IF_ERROR(measurement_.writeTrace(*exchanger_, environment_.worldSize, run_));
  HYCRT_RETURN_IF_ERROR(
      measurement_.writeProfile(*exchanger_, environment_.worldSize, run_, profileFacts(), runner.note));
  return exchanger_->barrier();
}

// What the run is for, before anything that may fail for a reason of its own: held-out data, a full disk.
Status RankRun::saveTrained(Context& ctx) {
  if (options_.saveWeights.empty()) return {};
  enter("writes the weights");
  HYCRT_RETURN_IF_ERROR(readBackStates());
  HYCRT_RETURN_IF_ERROR(checkWeights(ctx));
  const Adapter* const adapter = manifest_.adapter ? &*manifest_.adapter : nullptr;
  HYCRT_RETURN_IF_ERROR(
      saveWeights(ctx, options_.saveWeights, {run_, manifest_.folder + "/model", adapter, options_.merge}));
  releaseImages();
  return {};
}

// A profile is of one size: what it tells of an op are its times of each step.
void RankRun::measure(StageRunner& runner) {
  runner.measureBy(measurement_.profile());
  if (!measurement_.profile() || runner.size() == 0) return;
  runner.holdLargestSize(true);
  if (environment_.rank != 0) return;
  events_.note(std::string("what is measured is the largest size: steps are run at ") + program_.entries[0].dim + " " +
               std::to_string(runner.size()));
}

// Nobody's first step includes another's start.
Status RankRun::startTogether() {
  const Result<double> linkRate = measureLink(*host_, environment_.worldSize);
  if (!linkRate.ok()) return linkRate.status();
  linkRate_ = *linkRate;
  enter("waits for all before the first step");
  return exchanger_->barrier();
}

// All that the run does: the mean loss so far, after each batch.
Status RankRun::evaluate(Context& ctx) {
  Result<Evaluation> evaluation =
      Evaluation::create(ctx, *data_, "--data", options_.data, options_.limitsSteps ? options_.steps : 0, nullptr);
  if (!evaluation.ok()) return evaluation.status();
  noteLeftOut(*evaluation, *data_);
  const Result<EvaluationSums> sums = evaluation->run([&](const EvaluationSums& sums) -> Result<bool> {
    StepRecord record;
    record.evaluates = true;
    record.step = sums.batches;
    record.steps = evaluation->batches();
    record.loss = sums.loss();
    if (sums.correct >= 0) record.accuracy = sums.accuracy();
    record.milliseconds = sums.lastMilliseconds;
    setRate(sums.lastCounted, evaluation->globalBatch(), &record);
    record.etaSeconds = remaining_.after(record.milliseconds, record.steps - record.step);
    HYCRT_RETURN_IF_ERROR(tell(record));
    HYCRT_RETURN_IF_ERROR(checkFinite(ctx, record, sums.counted));
    return true;
  });
  return sums.ok() ? exchanger_->barrier() : sums.status();
}

void RankRun::setRate(int64_t tokens, int64_t samples, StepRecord* record) const {
  const double perSecond = 1e3 / record->milliseconds;
  record->tokensPerSecond = static_cast<double>(tokens) * perSecond;
  if (program_.batch.sequence <= 1) record->samplesPerSecond = static_cast<double>(samples) * perSecond;
}

Status RankRun::runStep(Context& ctx, StageRunner& runner, int64_t step) {
  const int64_t beginNs = monotonicNs();
  const LossScaling scaling = runner.lossScaling();
  // A step that is skipped does not move the schedule on.
  const int64_t applied = scaling.scale == 0 ? step - checkpoints_.skippedSteps() : scaling.appliedSteps;
  const double learningRate = manifest_.learningRate.at(applied, options_.steps);
  std::optional<double> momentum;
  if (manifest_.learningRate.cyclesMomentum()) {
    momentum = manifest_.learningRate.momentumAt(applied);
    *ctx.ptr<double>(program_.scalars.momentum) = *momentum;
    if (accelerator_) HYCRT_RETURN_IF_ERROR(accelerator_->upload(program_.scalars.momentum, sizeof(double)));
  }
  ctx.setStep(step);
  Whereabouts::ofProcess().beginStep(step + 1, options_.steps);
  runner.afterReduce = nullptr;
  if (step == checkpoints_.firstStep() && !options_.dumpGradients.empty()) {
    runner.afterReduce = [&] { return dumpGradients(ctx, runner); };
  }
  {
    const StepTimes::Between between(times_, *exchanger_);
    HYCRT_RETURN_IF_ERROR(runner.chooseSize());
  }
  waits_.begin(*exchanger_);
  HYCRT_RETURN_IF_ERROR(runner.runStep(learningRate));
  const StepResult result = runner.result();
  StepRecord record;
  record.step = step + 1;
  record.steps = options_.steps;
  record.size = runner.size();
  record.loss = result.lossSum / static_cast<double>(result.tokenCount);
  record.gradNorm = result.gradientNorm;
  record.learningRate = learningRate;
  record.momentum = momentum;
  record.milliseconds = static_cast<double>(monotonicNs() - beginNs) * 1e-6;
  setRate(result.tokenCount, shares_.samples(), &record);
  record.etaSeconds = remaining_.after(record.milliseconds, options_.steps - step - 1);
  const LossScaling after = runner.lossScaling();
  if (environment_.worldSize > 1) waits_.tell(*exchanger_, &record);
  record.lossScale = scaling.scale;
  record.skipped = scaling.scale == 0 ? 0 : step + 1 - after.appliedSteps;
  if (!accelerator_ && environment_.rank == 0) {
    record.residentBytes = resident_.bytes();
    record.plannedBytes = plannedBytes(program_) + checkpointMemory().bytes();
  }
  timeLimit_.stepTook(record.milliseconds / 1e3);
  checkpoints_.stepTook(record.milliseconds / 1e3);
  HYCRT_RETURN_IF_ERROR(finishCopy(ctx, step));
  HYCRT_RETURN_IF_ERROR(tell(record));
  const bool isApplied = scaling.scale == 0 || after.appliedSteps != scaling.appliedSteps;
  if (isApplied) HYCRT_RETURN_IF_ERROR(checkFinite(ctx, record, result.tokenCount));
  if (!after.exhausted) return {};
  return dataError("step " + std::to_string(step + 1) + ": the gradients overflow at the least loss scale, " +
                   std::to_string(after.scale) + "; lower the learning rate, or compute in bf16");
}

// What lies in the arenas when the first step begins: states, and what the program keeps for the run.
Status RankRun::fillMemory(Context& ctx) {
  HYCRT_RETURN_IF_ERROR(checkpoints_.load(ctx, manifest_, options_));
  HYCRT_RETURN_IF_ERROR(uploadStates());
  if (program_.prepare) program_.prepare(ctx);
  return ctx.status();
}

// States between the device, where there is one, and their images.
Status RankRun::uploadStates() {
  if (!accelerator_) return {};
  for (const StateDesc& state : program_.states) {
    if (program_.arenas[state.buffer.arena].onHost) continue;  // the image is the arena
    HYCRT_RETURN_IF_ERROR(accelerator_->upload(state.buffer, heldElements(state) * sizeOf(state.dtype)));
  }
  HYCRT_RETURN_IF_ERROR(accelerator_->finish());
  releaseImages();
  if (environment_.rank == 0) events_.note(accelerator_->describe());
  return {};
}

// They are read again only after they were copied back. What is small may hold what the host still counts.
void RankRun::releaseImages() {
  if (!accelerator_) return;
  for (int i = 0; i < program_.arenas.size; ++i) {
    const ArenaDesc& arena = program_.arenas[i];
    if (!arena.onHost && arena.bytes > kKeptImageBytes) memory_->release(i);
  }
}

Status RankRun::readBackStates() {
  if (!accelerator_) return {};
  checkpoints_.awaitStates();
  copies_.awaitStates();
  for (const StateDesc& state : program_.states) {
    HYCRT_RETURN_IF_ERROR(accelerator_->copyToHost(state.buffer, heldElements(state) * sizeOf(state.dtype)));
  }
  return accelerator_->finish();
}

// Of the steps after the first.
Status RankRun::tellOfTiers() {
  const int64_t run = options_.steps - checkpoints_.firstStep();
  if (environment_.worldSize == 1 || run < 2) return {};
  const StepEstimate& estimate = ownThread_ ? manifest_.estimateOwnThread : manifest_.estimateInTurn;
  return reportTiers(*exchanger_, *host_, times_, {run - 1, estimate, ownThread_, linkRate_}, program_.mesh, events_);
}

Status RankRun::tell(const StepRecord& record) {
  if (environment_.rank != 0) return {};
  HYCRT_RETURN_IF_ERROR(events_.step(record));
  return record.evaluates ? Status() : exchanges_.tell(*exchanger_, events_, record.step == record.steps);
}

CheckpointMemory RankRun::checkpointMemory() const {
  CheckpointMemory memory;
  const auto add = [&](const char* name, const Snapshot* room) {
    if (room) memory.rooms.push_back({name, room->base(), room->bytes()});
  };
  add("snapshot", checkpoints_.snapshot());
  add("copy", copies_.snapshot());
  memory.writerBytes = program_.checkpointWriterBytes * (checkpoints_.hasWritten() + (copies_.snapshot() != nullptr));
  return memory;
}

// While every rank still has all that it had: of pages that several ranks map, each counts its part.
Status RankRun::reportMemory() {
  HYCRT_RETURN_IF_ERROR(exchanger_->barrier());
  const MeasuredMemory memory{memory_->arenas(),  file_.get(),          memory_->headBytes(), fillsArenas(),
                              checkpointMemory(), measurement_.bytes(), host_->bufferBytes()};
  MemoryRecord record = measureMemory(program_, memory, environment_.rank);
  if (accelerator_) {
    const Result<DeviceMemory> device = accelerator_->measureMemory();
    if (!device.ok()) return device.status();
    record.device = *device;
  }
  HYCRT_RETURN_IF_ERROR(events_.memory(record));
  return exchanger_->barrier();
}

// The states hold sums over tokens; what is written are gradients of the mean loss.
Status RankRun::dumpGradients(Context& ctx, const StageRunner& runner) {
  HYCRT_RETURN_IF_ERROR(readBackStates());
  const double count = static_cast<double>(runner.result().tokenCount);
  return saveStates(ctx, "gradient", options_.dumpGradients, run_, {count});
}

}  // namespace hycrt
