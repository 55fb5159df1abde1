// RMS norm and its gradient against the reference, and by finite differences.
#include "kernel_test.h"
#include "kernels/rms_norm/reference.h"

namespace hyc::kernels {
namespace {

struct Case {
  RmsNormDesc desc;
  Floats x, scale, dy;

  Case(int64_t rows, int64_t cols)
      : desc{rows, cols, 1e-5},
        x(randomFloats(rows * cols, 1)),
        scale(randomFloats(cols, 2)),
        dy(randomFloats(rows * cols, 3)) {}
};

TEST(RmsNorm, ForwardEqualsReference) {
  for (int64_t cols : {1, 8, 33, 64, 771}) {
    Case c(19, cols);
    Floats y = notANumber(c.x.size()), rstd(19);
    Doubles wantY(c.x.size()), wantRstd(19);
    rmsNormForward(c.desc, c.x.data(), c.scale.data(), y.data(), rstd.data());
    reference::rmsNormForward(c.desc, widen(c.x).data(), widen(c.scale).data(), wantY.data(), wantRstd.data());
    EXPECT_LT(relativeError(y, wantY), 1e-6) << cols;
    EXPECT_LT(relativeError(rstd, wantRstd), 1e-6) << cols;
  }
}

struct Gradients {
  Floats dx, dscale;
};

Gradients gradients(const Case &c, WriteMode mode, float initial) {
  Floats y(c.x.size()), rstd(c.desc.rows);
  rmsNormForward(c.desc, c.x.data(), c.scale.data(), y.data(), rstd.data());
  Gradients g = {notANumber(c.x.size()), Floats(c.desc.cols, initial)};
  Floats workspace(rmsNormBackwardWorkspaceBytes(c.desc) / sizeof(float));
  rmsNormBackward(c.desc, c.x.data(), c.scale.data(), rstd.data(), c.dy.data(), g.dx.data(), g.dscale.data(), mode,
                  workspace.data());
  return g;
}

TEST(RmsNorm, BackwardEqualsReferenceInBothModes) {
  for (int64_t rows : {1, 7, 300})
    for (WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
      const Case c(rows, 71);
      const Gradients g = gradients(c, mode, mode == WriteMode::kAccumulate ? 2.0f : std::nanf(""));
      Doubles y(c.x.size()), rstd(rows), dx(c.x.size()), dscale(71, 2.0);
      reference::rmsNormForward(c.desc, widen(c.x).data(), widen(c.scale).data(), y.data(), rstd.data());
      reference::rmsNormBackward(c.desc, widen(c.x).data(), widen(c.scale).data(), rstd.data(), widen(c.dy).data(),
                                 dx.data(), dscale.data(), mode);
      EXPECT_LT(relativeError(g.dx, dx), 2e-6) << rows;
      EXPECT_LT(relativeError(g.dscale, dscale), 2e-6) << rows;
    }
}

TEST(RmsNorm, ResultsMayOverwriteOperands) {
  Case c(6, 45);
  const Gradients want = gradients(c, WriteMode::kOverwrite, 0);
  Floats y(c.x.size()), rstd(6), dscale(45), workspace(rmsNormBackwardWorkspaceBytes(c.desc) / sizeof(float));
  rmsNormForward(c.desc, c.x.data(), c.scale.data(), y.data(), rstd.data());
  rmsNormBackward(c.desc, c.x.data(), c.scale.data(), rstd.data(), c.dy.data(), c.dy.data(), dscale.data(),
                  WriteMode::kOverwrite, workspace.data());
  EXPECT_TRUE(sameBits(c.dy, want.dx));
  EXPECT_TRUE(sameBits(dscale, want.dscale));
  rmsNormForward(c.desc, c.x.data(), c.scale.data(), c.x.data(), rstd.data());
  EXPECT_TRUE(sameBits(c.x, y));
}

TEST(RmsNorm, ReferenceGradientsEqualFiniteDifferences) {
  const RmsNormDesc d = {3, 5, 1e-3};
  const Doubles x = widen(randomFloats(15, 5)), scale = widen(randomFloats(5, 6)), dy = widen(randomFloats(15, 8));
  const auto loss = [&](const Doubles &x, const Doubles &scale) {
    Doubles y(15), rstd(3);
    reference::rmsNormForward(d, x.data(), scale.data(), y.data(), rstd.data());
    return dot(y, dy);
  };
  Doubles y(15), rstd(3), dx(15), dscale(5);
  reference::rmsNormForward(d, x.data(), scale.data(), y.data(), rstd.data());
  reference::rmsNormBackward(d, x.data(), scale.data(), rstd.data(), dy.data(), dx.data(), dscale.data(),
                             WriteMode::kOverwrite);
  expectNear(dx, finiteDifferences(x, [&](const Doubles &v) { return loss(v, scale); }), 1e-6);
  expectNear(dscale, finiteDifferences(scale, [&](const Doubles &v) { return loss(x, v); }), 1e-6);
}

TEST(RmsNorm, BitsDoNotDependOnThreads) {
  const Case c(501, 130);
  expectBitsIndependentOfThreads([&] {
    Gradients g = gradients(c, WriteMode::kOverwrite, 0);
    g.dx.insert(g.dx.end(), g.dscale.begin(), g.dscale.end());
    return g.dx;
  });
}

/// What a rank computes of its rows is what one rank computes of them.
TEST(RmsNorm, RowsDoNotDependOnEachOther) {
  const Case whole(40, 96);
  Floats y(whole.x.size()), rstd(40), part(whole.x.size()), partRstd(40);
  rmsNormForward(whole.desc, whole.x.data(), whole.scale.data(), y.data(), rstd.data());
  for (int64_t begin : {0, 10, 20, 30})
    rmsNormForward({10, 96, 1e-5}, whole.x.data() + begin * 96, whole.scale.data(), part.data() + begin * 96,
                   partRstd.data() + begin);
  EXPECT_TRUE(sameBits(part, y));
  EXPECT_TRUE(sameBits(partRstd, rstd));
}

}  // namespace
}  // namespace hyc::kernels
