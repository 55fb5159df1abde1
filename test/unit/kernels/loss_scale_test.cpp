// The loss scale against tables made by hand from DeepSpeed's rules (DynamicLossScaler.update_scale): an overflow
// halves the scale once the hysteresis is used up; `window` steps after the last overflow, and every `window` after
// that, it doubles and the hysteresis is full again; with consecutive_hysteresis any good step fills it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/loss_scale/op.h"
#include "kernels/loss_scale/reference.h"

namespace hyc::kernels {
namespace {

// One character a step, 'x' where it overflows; the scale that each step is computed with, then the last one.
std::vector<double> scalesOf(const LossScaleRules &rules, double first, const std::string &steps) {
  LossScaleState state{first, 0, rules.hysteresis};
  std::vector<double> scales{first};
  for (char step : steps) {
    const LossScaleState byReference = reference::nextLossScale(rules, state, step != 'x');
    state = nextLossScale(rules, state, step != 'x');
    EXPECT_EQ(state.scale, byReference.scale);
    EXPECT_EQ(state.goodSteps, byReference.goodSteps);
    EXPECT_EQ(state.hysteresisLeft, byReference.hysteresisLeft);
    scales.push_back(state.scale);
  }
  return scales;
}

using Scales = std::vector<double>;

TEST(LossScale, DoublesEveryWindowOfGoodSteps) {
  EXPECT_EQ(scalesOf({4, 1, 1, false}, 8, "........."), (Scales{8, 8, 8, 8, 16, 16, 16, 16, 32, 32}));
}

TEST(LossScale, TheWindowCountsFromTheLastOverflow) {
  EXPECT_EQ(scalesOf({3, 1, 1, false}, 8, "..x...."), (Scales{8, 8, 8, 4, 4, 4, 8, 8}));
}

TEST(LossScale, WithoutHysteresisEveryOverflowHalves) {
  EXPECT_EQ(scalesOf({1000, 1, 1, false}, 16, "xx.x"), (Scales{16, 8, 4, 4, 2}));
}

TEST(LossScale, HysteresisForgivesTheFirstOverflowsAndIsNotFilledByOneGoodStep) {
  EXPECT_EQ(scalesOf({1000, 2, 1, false}, 16, "x.xx"), (Scales{16, 16, 16, 8, 4}));
  EXPECT_EQ(scalesOf({1000, 3, 1, false}, 16, "xx.xx"), (Scales{16, 16, 16, 16, 8, 4}));
}

TEST(LossScale, GrowthFillsTheHysteresis) {
  EXPECT_EQ(scalesOf({2, 2, 1, false}, 16, "xx..xx"), (Scales{16, 16, 8, 8, 16, 16, 8}));
}

TEST(LossScale, ConsecutiveHysteresisIsFilledByAnyGoodStep) {
  EXPECT_EQ(scalesOf({1000, 2, 1, true}, 16, "x.x.xx"), (Scales{16, 16, 16, 16, 16, 16, 8}));
}

TEST(LossScale, NeverFallsBelowTheMinimumAndSaysSo) {
  const LossScaleRules rules{1000, 1, 3, false};
  EXPECT_EQ(scalesOf(rules, 8, "xxx"), (Scales{8, 4, 3, 3}));
  LossScaleState state{3, 5, 1};
  state = nextLossScale(rules, state, false);
  EXPECT_EQ(state.hysteresisLeft, 0);  // DeepSpeed raises here
}

TEST(LossScale, NeverGrowsPastWhatF32Holds) {
  const LossScaleRules rules{1, 1, 1, false};
  EXPECT_EQ(scalesOf(rules, 0x1p125, "...x."), (Scales{0x1p125, 0x1p126, 0x1p127, 0x1p127, 0x1p126, 0x1p127}));
}

TEST(LossScale, EverySequenceOfTwelveStepsFollowsDeepSpeedsCounters) {
  // The class itself, by its own counters: all steps, and the number of the last one that overflowed.
  for (const LossScaleRules &rules :
       {LossScaleRules{3, 1, 1, false}, {2, 2, 0.5, false}, {3, 3, 1, true}, {1, 2, 4, false}})
    for (unsigned bits = 0; bits < 4096; ++bits) {
      double scale = 64;
      int64_t iteration = 0, lastOverflow = -1, hysteresis = rules.hysteresis;
      LossScaleState state{64, 0, rules.hysteresis};
      for (; iteration < 12; ++iteration) {
        const bool overflow = bits >> iteration & 1;
        if (overflow && (rules.hysteresis == 1 || hysteresis == 1) && scale == rules.minScale) break;  // it raises
        if (overflow) {
          if (rules.hysteresis == 1 || hysteresis == 1)
            scale = std::max(scale / 2, rules.minScale);
          else
            --hysteresis;
          lastOverflow = iteration;
        } else {
          if (rules.consecutiveHysteresis) hysteresis = rules.hysteresis;
          if ((iteration - lastOverflow) % rules.window == 0) {
            if (!rules.consecutiveHysteresis) hysteresis = rules.hysteresis;
            scale *= 2;
          }
        }
        state = nextLossScale(rules, state, !overflow);
        ASSERT_EQ(state.scale, scale) << "window " << rules.window << " sequence " << bits << " step " << iteration;
      }
    }
}

}  // namespace
}  // namespace hyc::kernels
