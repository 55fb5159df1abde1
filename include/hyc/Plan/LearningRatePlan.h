// How the learning rate goes over the steps: hyc's own rules (flags), or one of DeepSpeed's schedules (ds_config). The
// formulas are in runtime/include/hycrt/learning_rate.h; a run finds them in its manifest.
#ifndef HYC_PLAN_LEARNINGRATEPLAN_H
#define HYC_PLAN_LEARNINGRATEPLAN_H

#include "hyc/Plan/Setting.h"

#include <cstdint>

namespace hyc {

struct LearningRatePlan {
  /// The highest rate: the optimizer's, or what a schedule calls warmup_max_lr or cycle_max_lr.
  Setting<double> learningRate = 1e-3;
  /// constant, linear, cosine; WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle
  Setting<std::string> learningRateSchedule = "constant";
  Setting<int64_t> warmupSteps = 0;

  // WarmupLR, WarmupDecayLR and WarmupCosineLR
  Setting<double> warmupMinimum = 0.0, warmupMinimumRatio = 0.0, cosineMinimumRatio = 1e-4;
  Setting<std::string> warmupType = "log";
  Setting<int64_t> totalSteps = 0; ///< 0: those of the run

  // OneCycle
  Setting<double> cycleMinimum = 0.0, cycleDecayRate = 0.0;
  Setting<int64_t> cycleFirstSteps = 2000, cycleSecondSteps = 2000, cycleFirstStairs = 0, cycleSecondStairs = 0,
                   cycleDecaySteps = 0;
  /// The decay of the first moment goes against the learning rate, of optimizers that have one.
  Setting<bool> cycleMomentum = false;
  Setting<double> cycleMomentumLeast = 0.8, cycleMomentumMost = 0.9, cycleMomentumDecay = 0.0;
};

} // namespace hyc

#endif // HYC_PLAN_LEARNINGRATEPLAN_H
