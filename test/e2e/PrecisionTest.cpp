// The tiny GPT-2 in bf16 and fp16, as executables.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 20;

/// Of AdamW, in f32 or, beside f32 weights, in bf16.
const std::vector<double> &pytorchLosses(const std::string &precision) {
  static const auto f32 = readSafeTensors(model("gpt2-tiny.reference.safetensors"));
  static const auto bf16 = readSafeTensors(model("gpt2-tiny.bf16.safetensors"));
  return (precision == "bf16" ? bf16 : f32).at("losses.adamw").values;
}

/// A loss is a mean of 1,024 logarithms of probabilities, each of logits that were rounded to 8 (or 11) significant
/// bits some 80 times on their way: an error of a few units in their last place, most of which the mean takes away.
/// Over the steps the weights drift apart as well, by less than the loss falls.
constexpr double kBf16Tolerance = 0x1p-8, kF16Tolerance = 0x1p-10;

void expectNear(const std::vector<double> &actual, const std::vector<double> &expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t step = 0; step < actual.size(); ++step)
    EXPECT_NEAR(actual[step] / expected[step], 1.0, tolerance)
        << "step " << step + 1 << ": " << actual[step] << " and " << expected[step];
}

Layout layoutOf(int size, const std::string &precision, std::vector<std::string> further = {}) {
  return {size, size, size, "1f1b", "adamw", precision, std::move(further)};
}

const Log &oneRank(const std::string &precision) {
  static std::map<std::string, Log> logs;
  auto [entry, inserted] = logs.try_emplace(precision);
  if (inserted)
    entry->second = train(compiled(layoutOf(1, precision)), kSteps);
  return entry->second;
}

TEST(PrecisionOneRank, Bf16LossesAreNearPyTorchsOwn) {
  expectNear(oneRank("bf16").losses, pytorchLosses("bf16"), kBf16Tolerance);
  expectNear(oneRank("bf16").losses, pytorchLosses("f32"), kBf16Tolerance);
}

TEST(PrecisionOneRank, Fp16LossesAreNearPyTorchsF32AndNothingIsSkipped) {
  const Log &log = oneRank("fp16");
  expectNear(log.losses, pytorchLosses("f32"), kF16Tolerance);
  EXPECT_EQ(log.scales, std::vector<double>(kSteps, 65536));
  EXPECT_EQ(log.skipped, std::vector<int64_t>(kSteps, 0));
}

class PrecisionLayout : public testing::TestWithParam<std::string> {};

TEST_P(PrecisionLayout, EightRanksAreNearOneAndRepeatTheirBits) {
  std::string folder = compiled(layoutOf(2, GetParam()));
  Log log = train(folder, kSteps), again = train(folder, kSteps);
  expectNear(log.losses, oneRank(GetParam()).losses, GetParam() == "bf16" ? kBf16Tolerance : kF16Tolerance);
  EXPECT_EQ(log.losses, again.losses);
  EXPECT_EQ(log.norms, again.norms);
  EXPECT_EQ(log.scales, oneRank(GetParam()).scales);
}

INSTANTIATE_TEST_SUITE_P(TwoByTwoByTwo, PrecisionLayout, testing::Values("bf16", "fp16"),
                         [](const auto &info) { return info.param; });

/// Losses and norms of some steps, and the bytes of the weights after them.
struct Trained {
  Log log;
  std::string weights;
};

Trained trainWith(int size, const std::string &precision, std::vector<std::string> further) {
  further.insert(further.end(), {"--clip-grad-norm", "0.5"});
  std::string folder = compiled(layoutOf(size, precision, std::move(further)));
  std::string weights = folder + "/weights.safetensors";
  Trained trained{train(folder, 6, {"--save-weights", weights}), {}};
  std::ifstream file(weights, std::ios::binary);
  trained.weights.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return trained;
}

void expectSameBits(const Trained &actual, const Trained &expected) {
  EXPECT_EQ(actual.log.losses, expected.log.losses);
  EXPECT_EQ(actual.log.norms, expected.log.norms);
  EXPECT_FALSE(expected.weights.empty());
  EXPECT_TRUE(actual.weights == expected.weights);
}

/// Flat masters and copies, gathered in 16 bits, and what is computed again: not a bit changes.
TEST_P(PrecisionLayout, ZeroAndRecomputationChangeNoBit) {
  for (const char *reduction : {"step", "micro_batch"}) {
    auto flags = [&](std::vector<std::string> more) {
      more.insert(more.end(), {"--gradient-reduction", reduction});
      return more;
    };
    Trained whole = trainWith(2, GetParam(), flags({"--zero", "0"}));
    SCOPED_TRACE(reduction);
    expectSameBits(trainWith(2, GetParam(), flags({"--zero", "1"})), whole);
    expectSameBits(trainWith(2, GetParam(), flags({"--zero", "2", "--recompute", "layer"})), whole);
    expectSameBits(trainWith(2, GetParam(),
                             flags({"--zero", "3", "--stage3-param-persistence-threshold", "3000", "--stage3-prefetch",
                                    "2", "--allgather-bucket-size", "20000"})),
                   whole);
  }
}

TEST(PrecisionLayoutOptions, GradientsMayAccumulateAndCrossInBf16) {
  Log log = train(compiled(layoutOf(2, "bf16", {"--gradient-accumulation-type", "bf16"})), kSteps);
  expectNear(log.losses, oneRank("bf16").losses, 2 * kBf16Tolerance);
  log = train(compiled(layoutOf(2, "bf16", {"--communication-type", "bf16"})), kSteps);
  expectNear(log.losses, oneRank("bf16").losses, kBf16Tolerance);
}

/// A scale of 2^40 overflows until it has been halved often enough: with hysteresis 2 the first overflow is forgiven
/// and every further one halves. The learning rate waits.
TEST(LossScaling, OverflowsAreSkippedOnAllRanksUntilTheScaleFits) {
  const std::vector<std::string> further = {"--initial-scale-power", "40", "--warmup-steps", "8"};
  for (int size : {1, 2}) {
    Log log = train(compiled(layoutOf(size, "fp16", further)), 40);
    ASSERT_EQ(log.scales.size(), 40u);
    int64_t skipped = log.skipped.front();
    EXPECT_EQ(skipped, 1);
    double scale = 0x1p40;
    bool wasGood = false;
    for (size_t step = 0; step < log.scales.size(); ++step) {
      bool overflowed = log.skipped[step] > (step == 0 ? 0 : log.skipped[step - 1]);
      EXPECT_EQ(log.scales[step], scale) << "step " << step + 1;
      EXPECT_EQ(std::isfinite(log.norms[step]), !overflowed) << "step " << step + 1;
      if (overflowed && step > 0)
        scale /= 2;
      wasGood |= !overflowed;
      // Warm-up moves on with the steps that were applied.
      int64_t applied = static_cast<int64_t>(step) - (step == 0 ? 0 : log.skipped[step - 1]);
      EXPECT_NEAR(log.rates[step], 1e-3 * std::min<double>(1, (static_cast<double>(applied) + 1) / 8), 1e-9)
          << "step " << step + 1;
    }
    EXPECT_TRUE(wasGood) << "the scale never fitted";
    EXPECT_GT(log.skipped.back(), 5);
    EXPECT_LT(log.losses.back(), log.losses.front());
  }
}

TEST(LossScaling, AFixedScaleStaysAndOverflowAtTheMinimumEndsTheRun) {
  Log log = train(compiled(layoutOf(1, "fp16", {"--loss-scale", "4096"})), 5);
  EXPECT_EQ(log.scales, std::vector<double>(5, 4096));
  std::string folder =
      compiled(layoutOf(1, "fp16", {"--initial-scale-power", "60", "--min-loss-scale", "1e15", "--hysteresis", "1"}));
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", model("text.bin"), "--steps", "100"});
  EXPECT_EQ(outcome.status, 65);
  EXPECT_NE(outcome.output.find("overflow at the least loss scale"), std::string::npos) << outcome.output;
}

TEST(PrecisionSaved, WeightsAreTheF32Masters) {
  std::string folder = compiled(layoutOf(1, "bf16")), weights = folder + "/weights.safetensors";
  train(folder, 3, {"--save-weights", weights});
  size_t finer = 0, all = 0;
  for (auto &[name, tensor] : readSafeTensors(weights))
    for (double value : tensor.values) {
      int exponent = 0;
      double significand = std::ldexp(std::frexp(value, &exponent), 8); // bf16 has 8 bits
      finer += significand != std::floor(significand);
      ++all;
    }
  EXPECT_GT(finer, all / 2);
}

} // namespace
