// Rotary embedding and its tables against the reference.
#include "kernel_test.h"
#include "kernels/rope/reference.h"

namespace hyc::kernels {
namespace {

struct Case {
  RopeDesc desc;
  Floats x, cos, sin;

  Case(int64_t headDim, int64_t pairs, bool tablePerSample, int64_t heads = 3)
      : desc{2, 5, heads, headDim, pairs, tablePerSample},
        x(randomFloats(2 * 5 * heads * headDim, 1)),
        cos(randomFloats((tablePerSample ? 2 : 1) * 5 * pairs, 2)),
        sin(randomFloats((tablePerSample ? 2 : 1) * 5 * pairs, 3)) {}
};

TEST(Rope, EqualsReferenceWholeAndPartialForwardAndInverse) {
  for (auto [headDim, pairs] : {std::pair<int64_t, int64_t>{8, 4}, {10, 3}, {64, 32}, {6, 1}})
    for (bool tablePerSample : {false, true})
      for (bool inverse : {false, true}) {
        Case c(headDim, pairs, tablePerSample);
        c.desc.inverse = inverse;
        Floats y = notANumber(c.x.size());
        Doubles want(c.x.size());
        rope(c.desc, c.x.data(), c.cos.data(), c.sin.data(), y.data());
        reference::rope(c.desc, widen(c.x).data(), widen(c.cos).data(), widen(c.sin).data(), want.data());
        EXPECT_LT(relativeError(y, want), 1e-6) << headDim << " " << pairs;
      }
}

/// <turn(x), dy> = <x, inverse(dy)>: the inverse is the transpose, which is the gradient of a linear function.
TEST(Rope, InverseIsTheTranspose) {
  const Case c(8, 3, false);
  const Doubles x = widen(c.x), dy = widen(randomFloats(c.x.size(), 7));
  Doubles y(x.size()), dx(x.size());
  RopeDesc inverse = c.desc;
  inverse.inverse = true;
  reference::rope(c.desc, x.data(), widen(c.cos).data(), widen(c.sin).data(), y.data());
  reference::rope(inverse, dy.data(), widen(c.cos).data(), widen(c.sin).data(), dx.data());
  EXPECT_NEAR(dot(y, dy), dot(x, dx), 1e-12);
}

TEST(Rope, ResultMayOverwriteOperandAndBitsDoNotDependOnThreads) {
  Case c(64, 32, false, 40);
  const auto turned = [&] {
    Floats y(c.x.size());
    rope(c.desc, c.x.data(), c.cos.data(), c.sin.data(), y.data());
    return y;
  };
  expectBitsIndependentOfThreads(turned);
  const Floats want = turned();
  rope(c.desc, c.x.data(), c.cos.data(), c.sin.data(), c.x.data());
  EXPECT_TRUE(sameBits(c.x, want));
}

/// What a rank with a part of the heads computes is what one rank computes of them.
TEST(Rope, HeadsDoNotDependOnEachOther) {
  const Case whole(8, 4, false, 4);
  Floats y(whole.x.size());
  rope(whole.desc, whole.x.data(), whole.cos.data(), whole.sin.data(), y.data());
  for (int64_t head = 0; head < 4; ++head) {
    Case part(8, 4, false, 1);
    for (int64_t row = 0; row < 10; ++row)
      for (int64_t i = 0; i < 8; ++i) part.x[row * 8 + i] = whole.x[(row * 4 + head) * 8 + i];
    Floats partY(part.x.size());
    rope(part.desc, part.x.data(), whole.cos.data(), whole.sin.data(), partY.data());
    for (int64_t row = 0; row < 10; ++row)
      for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(partY[row * 8 + i], y[(row * 4 + head) * 8 + i]);
  }
}

TEST(RotaryTable, HoldsCosinesAndSinesOfAnglesRoundedToF32) {
  const RotaryTableDesc d = {5000, 3, 0.5};
  const Floats frequencies = {1.0f, 0.1f, 7.5e-4f};
  Floats cos(15000), sin(15000);
  rotaryTable(d, frequencies.data(), cos.data(), sin.data());
  for (int64_t p : {0, 1, 2, 63, 4999})
    for (int64_t i = 0; i < 3; ++i) {
      const double angle = static_cast<float>(p) * frequencies[i];
      EXPECT_NEAR(cos[p * 3 + i], 0.5 * std::cos(angle), 4e-8);
      EXPECT_NEAR(sin[p * 3 + i], 0.5 * std::sin(angle), 4e-8);
    }
  expectBitsIndependentOfThreads([&] {
    rotaryTable(d, frequencies.data(), cos.data(), sin.data());
    return cos;
  });
}

}  // namespace
}  // namespace hyc::kernels
