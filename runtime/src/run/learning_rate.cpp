// The formulas of every rule; DeepSpeed's with its own corner cases.
#include "hycrt/learning_rate.h"

#include <algorithm>
#include <cmath>

namespace hycrt {
namespace {

constexpr double kPi = 3.141592653589793;

// How much of the warm-up is done after `i` scheduler steps of `count`; the logarithm starts at 0 too, since log 1 is.
double risen(WarmupType type, int64_t i, int64_t count) {
  const double position = static_cast<double>(i), whole = static_cast<double>(count);
  return type == WarmupType::kLinear ? position / whole : (1 / std::log(whole)) * std::log(position + 1);
}

// x: where in its cycle step `k` stands, from 0 at the lowest rate to 1 at the highest.
double heightInCycle(const OneCycle& cycle, int64_t k) {
  const int64_t total = cycle.firstSteps + cycle.secondSteps, inCycle = k % total;
  const bool rising = inCycle <= cycle.firstSteps;
  const int64_t stairs = rising ? cycle.firstStairs : cycle.secondStairs;
  const double done = static_cast<double>(rising ? inCycle : total - inCycle),
               whole = static_cast<double>(rising ? cycle.firstSteps : cycle.secondSteps);
  if (stairs == 0) return done / whole;
  return std::floor(done * static_cast<double>(stairs) / whole) / static_cast<double>(stairs);
}

}  // namespace

double LearningRateRule::at(int64_t step, int64_t steps) const {
  switch (kind) {
    case LearningRateKind::kConstant:
    case LearningRateKind::kLinear:
    case LearningRateKind::kCosine:
      return ownAt(step, steps);
    case LearningRateKind::kWarmup:
    case LearningRateKind::kWarmupDecay:
      return warmupAt(step, totalSteps > 0 ? totalSteps : steps);
    case LearningRateKind::kWarmupCosine:
      return warmupCosineAt(step, totalSteps > 0 ? totalSteps : steps);
    case LearningRateKind::kOneCycle:
      return oneCycleAt(step);
  }
  return base;
}

double LearningRateRule::ownAt(int64_t step, int64_t steps) const {
  if (step < warmupSteps) return base * static_cast<double>(step + 1) / static_cast<double>(warmupSteps);
  if (kind == LearningRateKind::kConstant || steps <= warmupSteps) return base;
  const double progress = static_cast<double>(step - warmupSteps) / static_cast<double>(steps - warmupSteps);
  if (kind == LearningRateKind::kLinear) return base * (1 - progress);
  return base * (1 + std::cos(kPi * progress)) / 2;
}

double LearningRateRule::warmupAt(int64_t step, int64_t steps) const {
  if (step == 0) return lowest;
  const int64_t i = step - 1, count = std::max<int64_t>(2, warmupSteps);
  double part = 1;
  if (i < count) {
    part = risen(warmupType, i, count);
  } else if (kind == LearningRateKind::kWarmupDecay) {
    part = std::max(0.0, static_cast<double>(steps - i) / static_cast<double>(std::max<int64_t>(1, steps - count)));
  }
  return lowest + (base - lowest) * part;
}

double LearningRateRule::warmupCosineAt(int64_t step, int64_t steps) const {
  if (step == 0) return 0;
  const int64_t i = step - 1, count = std::max<int64_t>(2, warmupSteps);
  if (i < count) return base * (lowestRatio + (1 - lowestRatio) * risen(warmupType, i, count));
  const double progress =
      std::min(1.0, static_cast<double>(i - count + 1) / static_cast<double>(std::max<int64_t>(1, steps - count)));
  return base * std::max(0.0, finalRatio + (1 - finalRatio) * (1 + std::cos(kPi * progress)) / 2);
}

double LearningRateRule::oneCycleAt(int64_t step) const {
  const int64_t total = cycle.firstSteps + cycle.secondSteps;
  // The scheduler's index i = step - 1 decides which part it is in; its position counts from 1.
  if (step - 1 < total) return lowest + (base - lowest) * heightInCycle(cycle, step);
  if (cycle.decaySteps == 0 || cycle.decayRate == 0) return lowest;
  const double interval = static_cast<double>(step - total) / static_cast<double>(cycle.decaySteps);
  return lowest / (1 + cycle.decayRate * interval);
}

double LearningRateRule::momentumAt(int64_t step) const {
  const int64_t total = cycle.firstSteps + cycle.secondSteps;
  if (step == 0) return cycle.momentumLeast;
  if (step - 1 < total) {
    return cycle.momentumMost - (cycle.momentumMost - cycle.momentumLeast) * heightInCycle(cycle, step);
  }
  if (cycle.decaySteps == 0 || cycle.momentumDecayRate == 0) return cycle.momentumMost;
  const double interval = static_cast<double>(step - total) / static_cast<double>(cycle.decaySteps);
  return cycle.momentumMost * (1 + cycle.momentumDecayRate * interval);
}

}  // namespace hycrt
