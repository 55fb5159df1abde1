// Laps: every moment of a step belongs to one sum, so that the sums add up to the step.
#include "profile/profile.h"

#include <algorithm>

#include "base/clock.h"

namespace hycrt {
namespace {

std::string functionName(const char* kind, int virtualStage) {
  return virtualStage == 0 ? kind : std::string(kind) + "." + std::to_string(virtualStage);
}

}  // namespace

void markCalls(Profile& profile, int calls) { profile.mark(calls); }

Profile::Profile(const Entry& entry, const Exchanger& exchanger, Accelerator* device)
    : exchanger_(exchanger), device_(device) {
  for (const Instruction& instruction : entry.schedule) {
    virtualStages_ = std::max(virtualStages_, instruction.virtualStage + 1);
  }
  for (const char* kind : {"forward", "backward"}) {
    for (int i = 0; i < virtualStages_; ++i) functions_.emplace_back().name = functionName(kind, i);
  }
  functions_.emplace_back().name = "reduce";
  functions_.emplace_back().name = "apply";
}

size_t Profile::indexOf(const Instruction& instruction) const {
  const size_t stages = static_cast<size_t>(virtualStages_), stage = static_cast<size_t>(instruction.virtualStage);
  switch (instruction.kind) {
    case InstructionKind::kForward:
      return stage;
    case InstructionKind::kBackward:
      return stages + stage;
    case InstructionKind::kReduce:
      return 2 * stages;
    case InstructionKind::kApply:
    case InstructionKind::kBeginStep:
    case InstructionKind::kExchange:
      break;
  }
  return 2 * stages + 1;
}

void Profile::lap(ProfiledTime* time) {
  if (counts_) return;
  if (device_) {
    pending_.push_back(time);
    if (status_.ok()) status_ = device_->mark();
    return;
  }
  const int64_t now = monotonicNs();
  if (time) time->ns += now - lastNs_;
  lastNs_ = now;
  if (const Lateness* const late = exchanger_.lateness()) {
    if (time) time->lateNs += late->ns - lastLateNs_;
    lastLateNs_ = late->ns;
  }
}

void Profile::beginStep() {
  pending_.clear();
  lap(nullptr);
  if (const Lateness* const late = exchanger_.lateness(); late && !counts_) {
    std::copy(late->byRank.begin(), late->byRank.end(), lateBefore_.begin());
  }
}

void Profile::filledInputs() { lap(&inputs_); }
void Profile::exchanged() { lap(&transfers_); }

void Profile::beginFunction(const Instruction& instruction) {
  function_ = &functions_[indexOf(instruction)];
  next_ = 0;
  lap(&rest_);
}

void Profile::mark(int calls) {
  if (!function_) return;
  if (counts_) {
    if (calls > 1 && function_->executions == 0) function_->merged.emplace_back(next_, calls);
  } else if (next_ < function_->calls.size()) {
    lap(&function_->calls[next_]);
  }
  next_ += static_cast<size_t>(calls);
}

void Profile::endFunction() {
  lap(&rest_);
  function_->marks = next_;
  ++function_->executions;
  function_ = nullptr;
}

Status Profile::endStep() {
  if (counts_) {
    makeRoom();
    return {};
  }
  ++steps_;
  for (size_t i = 0; i < lateByRank_.size(); ++i) lateByRank_[i] += exchanger_.lateness()->byRank[i] - lateBefore_[i];
  if (!device_) {
    lap(&rest_);
    return {};
  }
  HYCRT_RETURN_IF_ERROR(status_);
  const Result<std::vector<int64_t>> times = device_->takeMarks();
  if (!times.ok()) return times.status();
  for (size_t i = 1; i < std::min(times->size(), pending_.size()); ++i) {
    if (pending_[i]) pending_[i]->ns += (*times)[i] - (*times)[i - 1];
  }
  return {};
}

// Steps do not allocate: all that they need is made after the first.
void Profile::makeRoom() {
  counts_ = false;
  size_t laps = 2;
  for (ProfiledFunction& function : functions_) {
    function.calls.resize(function.marks);
    laps += static_cast<size_t>(function.executions) * (function.marks + 3);
    function.executions = 0;
  }
  if (device_) pending_.reserve(laps);
  const Lateness* const late = exchanger_.lateness();
  const size_t ranks = late ? late->byRank.size() : 0;
  lateBefore_.resize(ranks);
  lateByRank_.resize(ranks);
}

int64_t Profile::bytes() const {
  size_t bytes =
      sizeof *this + 2 * lateBefore_.capacity() * sizeof(int64_t) + pending_.capacity() * sizeof(ProfiledTime*);
  for (const ProfiledFunction& function : functions_) {
    bytes += sizeof function + function.calls.capacity() * sizeof(ProfiledTime) +
             function.merged.capacity() * sizeof function.merged[0];
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace hycrt
