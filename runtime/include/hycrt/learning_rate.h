// LearningRateRule: which learning rate a step has. Three rules are hyc's own; four are DeepSpeed's schedules, with its
// parameter names, defaults aside (the compiler fills them in), and with its quirks: what runs before a run's first
// scheduler step counts, so that step k (from 0) has the rate that DeepSpeed's step k has.
//
// With k the step from 0 and n the run's steps:
//   constant, linear, cosine    w = warmup_steps
//     k < w   base (k + 1) / w
//     else    base, base (1 - t), base (1 + cos(pi t)) / 2;   t = (k - w) / (n - w)
//
// DeepSpeed's scheduler steps after the optimizer: step 0 has the rate of its construction, step k that of i = k - 1.
// Warm-up rises by g(i) = i / w (linear) or log(i + 1) / log(w) (log), where w = max(2, warmup_num_steps):
//   WarmupLR         k = 0: lo      i < w: lo + (hi - lo) g(i)      else hi
//   WarmupDecayLR    the same, but after the warm-up lo + (hi - lo) max(0, (n - i) / max(1, n - w))
//   WarmupCosineLR   k = 0: 0       i < w: base (m + (1 - m) g(i)), m = warmup_min_ratio
//                    else base max(0, c + (1 - c) (1 + cos(pi min(1, (i - w + 1) / max(1, n - w)))) / 2), c =
//                    cos_min_ratio
// n is total_num_steps, or where that is 0 the run's steps.
//   OneCycle         i < f + s: lo + (hi - lo) x, x from 0 to 1 over the first f steps of each f + s and back over the
//                    other s; in stairs, where a count is given, x is rounded down to a multiple of 1 / count
//                    else lo / (1 + decay_lr_rate (k - f - s) / decay_step_size), or lo where either is 0
//   With cycle_momentum the first moment's decay goes the other way: k = 0: cycle_min_mom; i < f + s: from
//   cycle_max_mom down by (cycle_max_mom - cycle_min_mom) x; else cycle_max_mom (1 + decay_mom_rate (k - f - s) /
//   decay_step_size), or cycle_max_mom where either is 0.
#ifndef HYCRT_LEARNING_RATE_H_
#define HYCRT_LEARNING_RATE_H_

#include <cstdint>

namespace hycrt {

enum class LearningRateKind : uint8_t { kConstant, kLinear, kCosine, kWarmup, kWarmupDecay, kWarmupCosine, kOneCycle };
enum class WarmupType : uint8_t { kLog, kLinear };

struct OneCycle {
  int64_t firstSteps = 2000, secondSteps = 2000;  // rising, falling; the first at least 1
  int64_t firstStairs = 0, secondStairs = 0;      // 0: continuous
  int64_t decaySteps = 0;
  double decayRate = 0;
  bool cyclesMomentum = false;
  double momentumLeast = 0.8, momentumMost = 0.9, momentumDecayRate = 0;
};

struct LearningRateRule {
  LearningRateKind kind = LearningRateKind::kConstant;
  double base = 0;  // WarmupLR, WarmupDecayLR and OneCycle: the highest rate
  int64_t warmupSteps = 0;
  double lowest = 0;  // WarmupLR, WarmupDecayLR and OneCycle
  WarmupType warmupType = WarmupType::kLog;
  int64_t totalSteps = 0;                  // WarmupDecayLR and WarmupCosineLR
  double lowestRatio = 0, finalRatio = 0;  // WarmupCosineLR
  OneCycle cycle;

  double at(int64_t step, int64_t steps) const;

  bool cyclesMomentum() const { return kind == LearningRateKind::kOneCycle && cycle.cyclesMomentum; }
  // Of rules that cycle it.
  double momentumAt(int64_t step) const;

 private:
  double ownAt(int64_t step, int64_t steps) const;
  double warmupAt(int64_t step, int64_t steps) const;
  double warmupCosineAt(int64_t step, int64_t steps) const;
  double oneCycleAt(int64_t step) const;
};

}  // namespace hycrt

#endif  // HYCRT_LEARNING_RATE_H_
