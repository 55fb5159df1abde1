// Layer norm and its gradient against the reference, and by finite differences.
#include "kernel_test.h"
#include "kernels/layer_norm/reference.h"

namespace hyc::kernels {
namespace {

struct Case {
  LayerNormDesc desc;
  Floats x, scale, bias, dy;

  Case(int64_t rows, int64_t cols)
      : desc{rows, cols, 1e-5},
        x(randomFloats(rows * cols, 1)),
        scale(randomFloats(cols, 2)),
        bias(randomFloats(cols, 3)),
        dy(randomFloats(rows * cols, 4)) {
    for (float &value : x) value += 3;  // a mean that is not small
  }
};

TEST(LayerNorm, ForwardEqualsReference) {
  for (int64_t cols : {1, 8, 33, 64, 771}) {
    Case c(19, cols);
    Floats y = notANumber(c.x.size()), mean(19), rstd(19);
    Doubles wantY(c.x.size()), wantMean(19), wantRstd(19);
    layerNormForward(c.desc, c.x.data(), c.scale.data(), c.bias.data(), y.data(), mean.data(), rstd.data());
    reference::layerNormForward(c.desc, widen(c.x).data(), widen(c.scale).data(), widen(c.bias).data(), wantY.data(),
                                wantMean.data(), wantRstd.data());
    EXPECT_LT(relativeError(y, wantY), 1e-5) << cols;
    EXPECT_LT(relativeError(mean, wantMean), 1e-6) << cols;
    EXPECT_LT(relativeError(rstd, wantRstd), 1e-5) << cols;
  }
}

TEST(LayerNorm, ForwardWithoutScaleAndBiasEqualsReference) {
  Case c(5, 40);
  Floats y(c.x.size()), mean(5), rstd(5);
  Doubles wantY(c.x.size()), wantMean(5), wantRstd(5);
  layerNormForward(c.desc, c.x.data(), nullptr, nullptr, y.data(), mean.data(), rstd.data());
  reference::layerNormForward<double>(c.desc, widen(c.x).data(), nullptr, nullptr, wantY.data(), wantMean.data(),
                                      wantRstd.data());
  EXPECT_LT(relativeError(y, wantY), 1e-5);
}

struct Gradients {
  Floats dx, dscale, dbias;
};

Gradients gradients(const Case &c, WriteMode mode, float initial) {
  Floats y(c.x.size()), mean(c.desc.rows), rstd(c.desc.rows);
  layerNormForward(c.desc, c.x.data(), c.scale.data(), c.bias.data(), y.data(), mean.data(), rstd.data());
  Gradients g = {notANumber(c.x.size()), Floats(c.desc.cols, initial), Floats(c.desc.cols, initial)};
  Floats workspace(layerNormBackwardWorkspaceBytes(c.desc) / sizeof(float));
  layerNormBackward(c.desc, c.x.data(), c.scale.data(), mean.data(), rstd.data(), c.dy.data(), g.dx.data(),
                    g.dscale.data(), g.dbias.data(), mode, workspace.data());
  return g;
}

TEST(LayerNorm, BackwardEqualsReferenceInBothModes) {
  for (int64_t rows : {1, 7, 300})
    for (WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
      const Case c(rows, 71);
      const bool accumulate = mode == WriteMode::kAccumulate;
      const Gradients g = gradients(c, mode, accumulate ? 2.0f : std::nanf(""));
      Doubles y(c.x.size()), mean(rows), rstd(rows), dx(c.x.size()), dscale(71, 2.0), dbias(71, 2.0);
      reference::layerNormForward(c.desc, widen(c.x).data(), widen(c.scale).data(), widen(c.bias).data(), y.data(),
                                  mean.data(), rstd.data());
      reference::layerNormBackward(c.desc, widen(c.x).data(), widen(c.scale).data(), mean.data(), rstd.data(),
                                   widen(c.dy).data(), dx.data(), dscale.data(), dbias.data(), mode);
      EXPECT_LT(relativeError(g.dx, dx), 2e-5) << rows;
      EXPECT_LT(relativeError(g.dscale, dscale), 1e-5) << rows;
      EXPECT_LT(relativeError(g.dbias, dbias), 1e-5) << rows;
    }
}

TEST(LayerNorm, InputGradientMayOverwriteOutputGradient) {
  Case c(6, 45);
  const Gradients want = gradients(c, WriteMode::kOverwrite, 0);
  Floats y(c.x.size()), mean(6), rstd(6), dscale(45), dbias(45);
  Floats workspace(layerNormBackwardWorkspaceBytes(c.desc) / sizeof(float));
  layerNormForward(c.desc, c.x.data(), c.scale.data(), c.bias.data(), y.data(), mean.data(), rstd.data());
  layerNormBackward(c.desc, c.x.data(), c.scale.data(), mean.data(), rstd.data(), c.dy.data(), c.dy.data(),
                    dscale.data(), dbias.data(), WriteMode::kOverwrite, workspace.data());
  EXPECT_TRUE(sameBits(c.dy, want.dx));
  EXPECT_TRUE(sameBits(dscale, want.dscale));
}

TEST(LayerNorm, ReferenceGradientsEqualFiniteDifferences) {
  const LayerNormDesc d = {3, 5, 1e-5};
  const Doubles x = widen(randomFloats(15, 5)), scale = widen(randomFloats(5, 6)), bias = widen(randomFloats(5, 7));
  const Doubles dy = widen(randomFloats(15, 8));
  const auto loss = [&](const Doubles &x, const Doubles &scale, const Doubles &bias) {
    Doubles y(15), mean(3), rstd(3);
    reference::layerNormForward(d, x.data(), scale.data(), bias.data(), y.data(), mean.data(), rstd.data());
    return dot(y, dy);
  };
  Doubles y(15), mean(3), rstd(3), dx(15), dscale(5), dbias(5);
  reference::layerNormForward(d, x.data(), scale.data(), bias.data(), y.data(), mean.data(), rstd.data());
  reference::layerNormBackward(d, x.data(), scale.data(), mean.data(), rstd.data(), dy.data(), dx.data(), dscale.data(),
                               dbias.data(), WriteMode::kOverwrite);
  expectNear(dx, finiteDifferences(x, [&](const Doubles &v) { return loss(v, scale, bias); }), 1e-6);
  expectNear(dscale, finiteDifferences(scale, [&](const Doubles &v) { return loss(x, v, bias); }), 1e-6);
  expectNear(dbias, finiteDifferences(bias, [&](const Doubles &v) { return loss(x, scale, v); }), 1e-6);
}

TEST(LayerNorm, BitsDoNotDependOnThreads) {
  const Case c(501, 130);
  expectBitsIndependentOfThreads([&] {
    Gradients g = gradients(c, WriteMode::kOverwrite, 0);
    g.dx.insert(g.dx.end(), g.dscale.begin(), g.dscale.end());
    g.dx.insert(g.dx.end(), g.dbias.begin(), g.dbias.end());
    return g.dx;
  });
}

}  // namespace
}  // namespace hyc::kernels
