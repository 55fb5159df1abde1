// Updates against their references and formulas, bit for bit, whole and in parts.
#include "kernel_test.h"
#include "kernels/adamw/reference.h"
#include "kernels/lamb/reference.h"
#include "kernels/lion/reference.h"
#include "kernels/sgd/reference.h"

namespace hyc::kernels {
namespace {

struct State {
  Floats param, grad, m, v;

  explicit State(int64_t n)
      : param(randomFloats(n, 1)), grad(randomFloats(n, 2)), m(randomFloats(n, 3)), v(randomFloats(n, 4)) {
    for (float &value : v) value = value * value;
  }
};

AdamWParams someAdamW() {
  AdamWParams p;
  p.weightDecay = 0.1;
  p.step = 7;
  p.gradScale = 0.37;
  return p;
}

TEST(AdamW, EqualsReferenceInF64) {
  State s(1003);
  Doubles param = widen(s.param), grad = widen(s.grad), m = widen(s.m), v = widen(s.v);
  adamw(someAdamW(), 1003, s.param.data(), s.grad.data(), s.m.data(), s.v.data());
  reference::adamw(someAdamW(), 1003, param.data(), grad.data(), m.data(), v.data());
  EXPECT_LT(relativeError(s.param, param), 1e-6);
  EXPECT_LT(relativeError(s.m, m), 1e-6);
  EXPECT_LT(relativeError(s.v, v), 1e-6);
}

TEST(AdamW, HasTheBitsOfTheReferenceInF32) {
  State got(1003), want(1003);
  adamw(someAdamW(), 1003, got.param.data(), got.grad.data(), got.m.data(), got.v.data());
  reference::adamw(someAdamW(), 1003, want.param.data(), want.grad.data(), want.m.data(), want.v.data());
  EXPECT_TRUE(sameBits(got.param, want.param) && sameBits(got.m, want.m) && sameBits(got.v, want.v));
}

TEST(AdamW, EveryVariantHasTheBitsOfTheReference) {
  for (DecayKind decay : {DecayKind::kDecoupled, DecayKind::kAddedToGradient})
    for (double weightDecay : {0.0, 0.1})
      for (bool correctsBias : {false, true}) {
        AdamWParams p = someAdamW();
        p.decay = decay;
        p.weightDecay = weightDecay;
        p.correctsBias = correctsBias;
        State got(1003), want(1003);
        adamw(p, 1003, got.param.data(), got.grad.data(), got.m.data(), got.v.data());
        reference::adamw(p, 1003, want.param.data(), want.grad.data(), want.m.data(), want.v.data());
        EXPECT_TRUE(sameBits(got.param, want.param) && sameBits(got.m, want.m) && sameBits(got.v, want.v));
      }
}

// Two steps of a parameter of 1 with gradients 0.5 and −0.25, worked by hand from the formula in op.h.
TEST(AdamW, FollowsTheFormula) {
  AdamWParams p;
  p.lr = 0.1;
  p.weightDecay = 0.01;
  float param = 1, grad = 0.5f, m = 0, v = 0;
  adamw(p, 1, &param, &grad, &m, &v);
  EXPECT_NEAR(param, 0.999 - 0.1, 1e-6);  // the first step moves by lr against the gradient's sign
  p.step = 2;
  grad = -0.25f;
  adamw(p, 1, &param, &grad, &m, &v);
  const double mean = 0.05 * 0.9 - 0.025, square = 0.00025 * 0.999 + 0.0000625;
  const double expected = 0.899 * 0.999 - 0.1 * (mean / 0.19) / (std::sqrt(square / 0.001999) + 1e-8);
  EXPECT_NEAR(param, expected, 1e-6);
}

TEST(AdamW, BitsDoNotDependOnHowTheRangeIsSplit) {
  State whole(100000), split(100000);
  adamw(someAdamW(), 100000, whole.param.data(), whole.grad.data(), whole.m.data(), whole.v.data());
  for (int64_t start = 0; start < 100000;) {
    const int64_t length = std::min<int64_t>(start % 977 + 1, 100000 - start);
    adamw(someAdamW(), length, split.param.data() + start, split.grad.data() + start, split.m.data() + start,
          split.v.data() + start);
    start += length;
  }
  EXPECT_TRUE(sameBits(whole.param, split.param) && sameBits(whole.m, split.m) && sameBits(whole.v, split.v));
}

TEST(AdamW, BitsDoNotDependOnThreads) {
  expectBitsIndependentOfThreads([] {
    State s(100003);
    adamw(someAdamW(), 100003, s.param.data(), s.grad.data(), s.m.data(), s.v.data());
    return s.param;
  });
}

LambParams someLamb() {
  LambParams p;
  p.weightDecay = 0.1;
  p.step = 7;
  p.gradScale = 0.37;
  return p;
}

TEST(Lamb, HasTheBitsOfTheReferenceInF32) {
  State got(1003), want(1003);
  lambDirection(someLamb(), 1003, got.param.data(), got.grad.data(), got.m.data(), got.v.data());
  reference::lambDirection(someLamb(), 1003, want.param.data(), want.grad.data(), want.m.data(), want.v.data());
  EXPECT_TRUE(sameBits(got.grad, want.grad) && sameBits(got.m, want.m) && sameBits(got.v, want.v));
  lambUpdate(0.3, 1003, got.param.data(), got.grad.data());
  reference::lambUpdate(0.3, 1003, want.param.data(), want.grad.data());
  EXPECT_TRUE(sameBits(got.param, want.param));
}

TEST(Lamb, BitsDoNotDependOnThreadsOrSplit) {
  expectBitsIndependentOfThreads([] {
    State s(100003);
    lambDirection(someLamb(), 100003, s.param.data(), s.grad.data(), s.m.data(), s.v.data());
    lambUpdate(0.3, 100003, s.param.data(), s.grad.data());
    return s.param;
  });
  State whole(5000), split(5000);
  lambDirection(someLamb(), 5000, whole.param.data(), whole.grad.data(), whole.m.data(), whole.v.data());
  for (auto [start, length] : {std::pair{0, 1237}, {1237, 5000 - 1237}})
    lambDirection(someLamb(), length, split.param.data() + start, split.grad.data() + start, split.m.data() + start,
                  split.v.data() + start);
  EXPECT_TRUE(sameBits(whole.grad, split.grad));
}

TEST(Lamb, TrustRatioIsBoundedAndOneWhereANormIsZero) {
  EXPECT_EQ(trustRatio({}, 9, 4), 1.5);
  EXPECT_EQ(trustRatio({}, 9e6, 4), 10);
  EXPECT_EQ(trustRatio({}, 4e-8, 4), 0.01);
  EXPECT_EQ(trustRatio({}, 0, 4), 1);
  EXPECT_EQ(trustRatio({}, 4, 0), 1);
}

TEST(Lion, HasTheBitsOfTheReferenceInF32) {
  LionParams p;
  p.weightDecay = 0.1;
  p.gradScale = 0.37;
  State got(1003), want(1003);
  got.grad[5] = got.m[5] = want.grad[5] = want.m[5] = 0;  // sign(0)
  got.grad[6] = want.grad[6] = notANumber(1)[0];
  lion(p, 1003, got.param.data(), got.grad.data(), got.m.data());
  reference::lion(p, 1003, want.param.data(), want.grad.data(), want.m.data());
  EXPECT_TRUE(sameBits(got.param, want.param) && sameBits(got.m, want.m));
  EXPECT_TRUE(std::isnan(got.param[6]));
}

TEST(Lion, ElementsWithoutGradientOnlyDecay) {
  LionParams p;
  p.lr = 0.5;
  float param[] = {4, -4, 0}, grad[] = {0, -0.0f, 0}, m[] = {0, 0, 0};
  lion(p, 3, param, grad, m);
  EXPECT_EQ(param[0], 4);
  EXPECT_EQ(param[1], -4);
  p.weightDecay = 0.5;
  lion(p, 3, param, grad, m);
  EXPECT_EQ(param[0], 3);
  EXPECT_EQ(param[1], -3);
  EXPECT_EQ(param[2], 0);  // what pads a shard stays zero
}

TEST(Lion, BitsDoNotDependOnThreadsOrSplit) {
  LionParams p;
  p.weightDecay = 0.1;
  expectBitsIndependentOfThreads([&] {
    State s(100003);
    lion(p, 100003, s.param.data(), s.grad.data(), s.m.data());
    return s.param;
  });
  State whole(5000), split(5000);
  lion(p, 5000, whole.param.data(), whole.grad.data(), whole.m.data());
  lion(p, 1237, split.param.data(), split.grad.data(), split.m.data());
  lion(p, 5000 - 1237, split.param.data() + 1237, split.grad.data() + 1237, split.m.data() + 1237);
  EXPECT_TRUE(sameBits(whole.param, split.param));
}

TEST(Sgd, EveryVariantHasTheBitsOfTheReference) {
  for (double momentum : {0.0, 0.9})
    for (double weightDecay : {0.0, 0.1})
      for (MomentumKind kind : {MomentumKind::kHeavyBall, MomentumKind::kNesterov})
        for (int64_t step : {1, 2}) {
          SgdParams p;
          p.lr = 0.3;
          p.momentum = momentum;
          p.dampening = kind == MomentumKind::kNesterov ? 0.0 : 0.2;
          p.weightDecay = weightDecay;
          p.kind = kind;
          p.step = step;
          p.gradScale = 0.7;
          State got(1003), want(1003);
          if (step == 1) got.m = notANumber(1003);  // the first step ignores the buffer
          sgd(p, 1003, got.param.data(), got.grad.data(), momentum != 0 ? got.m.data() : nullptr);
          reference::sgd(p, 1003, want.param.data(), want.grad.data(), want.m.data());
          EXPECT_TRUE(sameBits(got.param, want.param));
          EXPECT_TRUE(momentum == 0 || sameBits(got.m, want.m));
        }
}

TEST(Sgd, BitsDoNotDependOnThreadsOrSplit) {
  SgdParams p;
  p.momentum = 0.9;
  p.weightDecay = 0.1;
  p.step = 3;
  expectBitsIndependentOfThreads([&] {
    State s(100003);
    sgd(p, 100003, s.param.data(), s.grad.data(), s.m.data());
    return s.param;
  });
  State whole(5000), split(5000);
  sgd(p, 5000, whole.param.data(), whole.grad.data(), whole.m.data());
  sgd(p, 1237, split.param.data(), split.grad.data(), split.m.data());
  sgd(p, 5000 - 1237, split.param.data() + 1237, split.grad.data() + 1237, split.m.data() + 1237);
  EXPECT_TRUE(sameBits(whole.param, split.param));
}

}  // namespace
}  // namespace hyc::kernels
