// The step loop: instructions of the schedule, their inputs, and steps that a device has recorded.
#include "run/stage_runner.h"

#include <algorithm>

#include "base/progress.h"
#include "base/whereabouts.h"
#include "comm/exchanger.h"
#include "hycrt/accelerator.h"

namespace hycrt {
namespace {

// Whether this is the first time that a virtual stage is asked about.
bool isFirst(std::vector<bool>& seen, int virtualStage) {
  const size_t index = static_cast<size_t>(virtualStage);
  if (seen.size() <= index) seen.resize(index + 1, false);
  const bool first = !seen[index];
  seen[index] = true;
  return first;
}

// Null for an instruction that computes nothing.
const char* nameOf(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kForward:
      return "forward";
    case InstructionKind::kBackward:
      return "backward";
    case InstructionKind::kReduce:
      return "reduce";
    case InstructionKind::kApply:
      return "apply";
    case InstructionKind::kBeginStep:
    case InstructionKind::kExchange:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

Status StageRunner::runStep(double learningRate) {
  if (recording_ == Recording::kDone) {
    HYCRT_RETURN_IF_ERROR(refillStep(learningRate));
    return readScalars();
  }
  if (recording_ != Recording::kOff && hasRun_ && !afterReduce) {
    HYCRT_RETURN_IF_ERROR(recordStep(learningRate));
    if (recording_ == Recording::kDone) return readScalars();
  }
  hasRun_ = !afterReduce;
  HYCRT_RETURN_IF_ERROR(runSchedule(learningRate));
  HYCRT_RETURN_IF_ERROR(readScalars());
  if (profile_) HYCRT_RETURN_IF_ERROR(profile_->endStep());
  return traceDevice();
}

// What could not be recorded has not run either, and is run as any other step.
Status StageRunner::recordStep(double learningRate) {
  Accelerator& device = *ctx_.accelerator();
  Status ran, recorded = device.beginRecording();
  if (recorded.ok()) {
    ran = runSchedule(learningRate);
    recorded = device.endRecording();
  }
  HYCRT_RETURN_IF_ERROR(recorded.ok() ? ran : ctx_.status());
  if (recorded.ok()) {
    recording_ = Recording::kDone;
    return device.launch();
  }
  if (recording_ == Recording::kInsisted) return recorded;
  if (note) note("steps are run without a graph: " + recorded.message());
  recording_ = Recording::kOff;
  return {};
}

// What the host does in a recorded step: the same uploads in the same order.
Status StageRunner::refillStep(double learningRate) {
  ctx_.accelerator()->refill();
  for (const Instruction& instruction : steps_->schedule) {
    switch (instruction.kind) {
      case InstructionKind::kBeginStep:
        HYCRT_RETURN_IF_ERROR(beginStep());
        break;
      case InstructionKind::kForward:
      case InstructionKind::kBackward:
        HYCRT_RETURN_IF_ERROR(fillInputs(instruction.microBatch));
        break;
      case InstructionKind::kApply: {
        const BufferRef rate = ctx_.program().scalars.learningRate;
        *ctx_.ptr<float>(rate) = static_cast<float>(learningRate);
        HYCRT_RETURN_IF_ERROR(upload(rate, sizeof(float)));
        break;
      }
      case InstructionKind::kReduce:
      case InstructionKind::kExchange:
        break;
    }
  }
  return ctx_.accelerator()->launch();
}

Status StageRunner::runSchedule(double learningRate) {
  if (profile_) profile_->beginStep();
  HYCRT_RETURN_IF_ERROR(markDevice());
  for (const Instruction& instruction : steps_->schedule) {
    const int64_t begin = trace_ ? monotonicNs() : 0;
    leaveWord(instruction);
    HYCRT_RETURN_IF_ERROR(execute(*steps_, instruction, learningRate));
    HYCRT_RETURN_IF_ERROR(ctx_.status());
    HYCRT_RETURN_IF_ERROR(markDevice());
    noteProgress();
    if (trace_ && !ctx_.accelerator()) traceInstruction(instruction, begin, monotonicNs());
  }
  return {};
}

// Of what is measured: a function of the program, whose statements tell when they end.
void StageRunner::beginFunction(const Instruction& instruction) {
  if (!profile_) return;
  profile_->beginFunction(instruction);
  ctx_.setProfile(profile_);
}

void StageRunner::endFunction() {
  if (!profile_) return;
  ctx_.setProfile(nullptr);
  profile_->endFunction();
}

void StageRunner::leaveWord(const Instruction& instruction) const {
  const bool isExchange = instruction.kind == InstructionKind::kExchange;
  const bool ofMicroBatch =
      instruction.kind == InstructionKind::kForward || instruction.kind == InstructionKind::kBackward;
  Whereabouts::ofProcess().beginInstruction(isExchange ? "exchange with another stage" : nameOf(instruction.kind),
                                            ofMicroBatch ? instruction.microBatch : -1);
}

void StageRunner::traceInstruction(const Instruction& instruction, int64_t beginNs, int64_t endNs) {
  const char* name = nameOf(instruction.kind);
  if (!name) return;
  const bool ofMicroBatch =
      instruction.kind == InstructionKind::kForward || instruction.kind == InstructionKind::kBackward;
  trace_->add(
      {TraceTrack::kComputation, name, "", beginNs, endNs, ofMicroBatch ? int64_t{instruction.microBatch} : -1});
}

// The host runs ahead of a device, whose own times are what is told.
Status StageRunner::markDevice() { return trace_ && ctx_.accelerator() ? ctx_.accelerator()->mark() : Status(); }

Status StageRunner::traceDevice() {
  if (!trace_ || !ctx_.accelerator()) return {};
  const Result<std::vector<int64_t>> times = ctx_.accelerator()->takeMarks();
  if (!times.ok()) return times.status();
  size_t next = 0;
  for (const Instruction& instruction : steps_->schedule) {
    traceInstruction(instruction, (*times)[next], (*times)[next + 1]);
    ++next;
  }
  return {};
}

Status StageRunner::upload(BufferRef buffer, int64_t bytes) {
  return ctx_.accelerator() ? ctx_.accelerator()->upload(buffer, bytes) : Status();
}

Status StageRunner::readScalars() {
  Accelerator* const device = ctx_.accelerator();
  if (!device) return {};
  const ScalarsDesc& scalars = ctx_.program().scalars;
  const auto read = [&](BufferRef buffer, DType type) {
    return buffer.arena < 0 ? Status() : device->copyToHost(buffer, sizeOf(type));
  };
  HYCRT_RETURN_IF_ERROR(read(scalars.lossSum, DType::kF32));
  HYCRT_RETURN_IF_ERROR(read(scalars.tokenCount, DType::kI64));
  HYCRT_RETURN_IF_ERROR(read(scalars.gradientNorm, DType::kF32));
  HYCRT_RETURN_IF_ERROR(read(scalars.lossScale, DType::kF32));
  HYCRT_RETURN_IF_ERROR(read(scalars.hysteresis, DType::kI64));
  HYCRT_RETURN_IF_ERROR(read(scalars.appliedSteps, DType::kI64));
  HYCRT_RETURN_IF_ERROR(read(scalars.correctCount, DType::kI64));
  return device->finish();
}

// Whoever sends and whoever receives leave out the same and keep the order of the rest, so that they still meet; where
// forward runs alone, buffers are free as soon as the forward that reads them is over.
StageRunner::Steps StageRunner::selectSteps(const Entry& entry, const std::function<bool(int64_t)>& isTaken,
                                            bool trains) const {
  Steps steps;
  for (Instruction instruction : entry.schedule) {
    if (instruction.kind == InstructionKind::kExchange) {
      const int begin = static_cast<int>(steps.transferUses.size());
      for (int i = 0; i < instruction.transferCount; ++i) {
        const TransferUse& use = entry.transferUses[instruction.firstTransfer + i];
        const bool isOfEntry = trains || !ctx_.program().transfers[use.transfer].backward;
        if (isOfEntry && isTaken(use.microBatch)) steps.transferUses.push_back(use);
      }
      instruction.firstTransfer = begin;
      instruction.transferCount = static_cast<int>(steps.transferUses.size()) - begin;
      if (instruction.transferCount > 0) steps.schedule.push_back(instruction);
      continue;
    }
    const bool isOfBatch =
        instruction.kind == InstructionKind::kForward || instruction.kind == InstructionKind::kBackward;
    if (isOfBatch && !isTaken(instruction.microBatch)) continue;
    const bool isOfTraining =
        instruction.kind == InstructionKind::kBackward || instruction.kind == InstructionKind::kApply;
    if (trains || !isOfTraining) steps.schedule.push_back(instruction);
  }
  return steps;
}

void StageRunner::takeShares(const BatchShares& shares, int64_t itemShift) {
  loader_->takeShares(shares);
  loader_->shiftItems(itemShift);
  const int64_t own = shares.microBatchesOf(ctx_.coordinate(ctx_.mesh().batch));
  selectSizes([own](int64_t microBatch) { return microBatch < own; });
}

void StageRunner::selectSizes(const std::function<bool(int64_t)>& isTaken) {
  const std::vector<const Entry*> entries =
      entry_->size > 0 ? sizesOf(ctx_.program()) : std::vector<const Entry*>{entry_};
  sizes_.clear();
  for (const Entry* entry : entries) sizes_.push_back({entry, selectSteps(*entry, isTaken, /*trains=*/true)});
  takeSize(sizes_.back());
}

void StageRunner::takeSize(const Size& size) {
  entry_ = size.entry;
  steps_ = &size.steps;
  loader_->takeSize(*size.entry);
}

// Each rank knows how long its own samples are, and a stage what its inputs tell of them.
Status StageRunner::chooseSize() {
  if (sizes_.size() < 2 || holdsLargest_) return {};
  const Result<int64_t> own = loader_->lengthOf(ctx_.step());
  if (!own.ok()) return own.status();
  const Result<const uint64_t*> all = ctx_.exchanger().share(static_cast<uint64_t>(*own + 1));
  if (!all.ok()) return all.status();
  uint64_t longest = 0;
  for (int rank = 0; rank < rankCount(ctx_.mesh()); ++rank) longest = std::max(longest, (*all)[rank]);
  const auto fits = [&](const Size& size) {
    return longest > 0 && static_cast<uint64_t>(size.entry->size) + 1 >= longest;
  };
  const auto found = std::find_if(sizes_.begin(), sizes_.end(), fits);
  takeSize(found == sizes_.end() ? sizes_.back() : *found);
  return {};
}

Status StageRunner::evaluateBatch() {
  if (forward_.schedule.empty()) forward_ = selectSteps(*entry_, [](int64_t) { return true; }, /*trains=*/false);
  for (const Instruction& instruction : forward_.schedule) {
    HYCRT_RETURN_IF_ERROR(execute(forward_, instruction, 0));
    HYCRT_RETURN_IF_ERROR(ctx_.status());
  }
  return readScalars();
}

Status StageRunner::execute(const Steps& steps, const Instruction& instruction, double learningRate) {
  switch (instruction.kind) {
    case InstructionKind::kBeginStep:
      return beginStep();
    case InstructionKind::kForward:
    case InstructionKind::kBackward:
      return compute(instruction);
    case InstructionKind::kExchange:
      HYCRT_RETURN_IF_ERROR(
          ctx_.exchanger().exchange(steps.transferUses.data() + instruction.firstTransfer, instruction.transferCount));
      if (profile_) profile_->exchanged();
      return {};
    case InstructionKind::kReduce:
      beginFunction(instruction);
      entry_->reduce(ctx_);
      endFunction();
      HYCRT_RETURN_IF_ERROR(ctx_.status());
      if (!afterReduce) return {};
      HYCRT_RETURN_IF_ERROR(readScalars());
      return afterReduce();
    case InstructionKind::kApply:
      beginFunction(instruction);
      entry_->apply(ctx_, static_cast<float>(learningRate));
      endFunction();
      return {};
  }
  return {};
}

Status StageRunner::compute(const Instruction& instruction) {
  HYCRT_RETURN_IF_ERROR(fillInputs(instruction.microBatch));
  const bool forward = instruction.kind == InstructionKind::kForward;
  const bool first = isFirst(forward ? seenForward_ : seenBackward_, instruction.virtualStage);
  const Call call{instruction.virtualStage, instruction.microBatch, instruction.slot, first};
  if (profile_) profile_->filledInputs();
  beginFunction(instruction);
  (forward ? entry_->forward : entry_->backward)(ctx_, call);
  endFunction();
  return {};
}

Status StageRunner::beginStep() {
  *ctx_.ptr<float>(ctx_.program().scalars.lossSum) = 0;
  *ctx_.ptr<int64_t>(ctx_.program().scalars.tokenCount) = 0;
  filledMicroBatch_ = -1;
  seenForward_.clear();
  seenBackward_.clear();
  if (const BufferRef correct = ctx_.program().scalars.correctCount; correct.arena >= 0) {
    *ctx_.ptr<int64_t>(correct) = 0;
    HYCRT_RETURN_IF_ERROR(upload(correct, sizeOf(DType::kI64)));
  }
  HYCRT_RETURN_IF_ERROR(upload(ctx_.program().scalars.lossSum, sizeOf(DType::kF32)));
  return upload(ctx_.program().scalars.tokenCount, sizeOf(DType::kI64));
}

Status StageRunner::fillInputs(int64_t microBatch) {
  if (filledMicroBatch_ == microBatch) return {};
  HYCRT_RETURN_IF_ERROR(loader_->fill(microBatch));
  for (int64_t i = 0; i < entry_->inputs.size; ++i) {
    const InputDesc& input = ctx_.program().inputs[entry_->inputs[i]];
    const Shape& sample = entry_->samples.size == 0 ? input.sample : entry_->samples[i];
    const int64_t sampleBytes = elementCount(sample) * sizeOf(input.dtype);
    HYCRT_RETURN_IF_ERROR(upload(input.buffer, ctx_.program().batch.samples * sampleBytes));
  }
  filledMicroBatch_ = microBatch;
  return {};
}

LossScaling StageRunner::lossScaling() const {
  const ScalarsDesc& scalars = ctx_.program().scalars;
  if (scalars.lossScale.arena < 0) return {};
  return {*ctx_.ptr<float>(scalars.lossScale), *ctx_.ptr<int64_t>(scalars.appliedSteps),
          scalars.hysteresis.arena >= 0 && *ctx_.ptr<int64_t>(scalars.hysteresis) == 0};
}

StepResult StageRunner::result() const {
  const ScalarsDesc& scalars = ctx_.program().scalars;
  return {*ctx_.ptr<float>(scalars.lossSum), *ctx_.ptr<int64_t>(scalars.tokenCount),
          *ctx_.ptr<float>(scalars.gradientNorm),
          scalars.correctCount.arena < 0 ? -1 : *ctx_.ptr<int64_t>(scalars.correctCount)};
}

}  // namespace hycrt
