// Group norm and its gradient against the reference, and by finite differences: groups of few and of many positions, of
// one channel, of more than a block of elements, and fewer groups than there are threads.
#include "kernel_test.h"
#include "kernels/group_norm/reference.h"

namespace hyc::kernels {
namespace {

const GroupNormDesc kGroups[] = {
    {5, 3, 4, 49},     // a short tail of lanes
    {2, 4, 8, 1},      // no positions: channels alone
    {70, 2, 3, 31},    // samples in blocks of three, and one of one
    {3, 17, 1, 100},   // instance norm
    {1, 1, 3, 40000},  // one group of several blocks, whose channels have several
    {1, 2, 300, 130},  // few groups of many channels
    {2, 1, 1, 33000},  // few groups of one channel
};

struct Case {
  GroupNormDesc desc;
  Floats x, scale, bias, dy;

  explicit Case(const GroupNormDesc &d)
      : desc(d),
        x(randomFloats(d.samples * width() * d.positions, 1)),
        scale(randomFloats(width(), 2)),
        bias(randomFloats(width(), 3)),
        dy(randomFloats(static_cast<int64_t>(x.size()), 4)) {
    for (float &value : x) value += 3;  // a mean that is not small
  }
  int64_t width() const { return desc.groups * desc.channels; }
  int64_t rows() const { return desc.samples * desc.groups; }
};

struct Results {
  Floats y, mean, rstd, dx, dscale, dbias;
};

Results results(const Case &c, WriteMode mode, float initial) {
  Results r = {notANumber(c.x.size()), notANumber(c.rows()),       notANumber(c.rows()),
               notANumber(c.x.size()), Floats(c.width(), initial), Floats(c.width(), initial)};
  groupNormForward(c.desc, c.x.data(), c.scale.data(), c.bias.data(), r.y.data(), r.mean.data(), r.rstd.data());
  Floats workspace = notANumber(groupNormBackwardWorkspaceBytes(c.desc) / sizeof(float));
  groupNormBackward(c.desc, c.x.data(), c.scale.data(), r.mean.data(), r.rstd.data(), c.dy.data(), r.dx.data(),
                    r.dscale.data(), r.dbias.data(), mode, workspace.data());
  return r;
}

TEST(GroupNorm, EqualsReferenceInBothModes) {
  for (const GroupNormDesc &d : kGroups)
    for (WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
      const Case c(d);
      const Results r = results(c, mode, mode == WriteMode::kAccumulate ? 2.0f : std::nanf(""));
      Doubles y(c.x.size()), mean(c.rows()), rstd(c.rows()), dx(c.x.size()), dscale(c.width(), 2.0), dbias(dscale);
      reference::groupNormForward(d, widen(c.x).data(), widen(c.scale).data(), widen(c.bias).data(), y.data(),
                                  mean.data(), rstd.data());
      reference::groupNormBackward(d, widen(c.x).data(), widen(c.scale).data(), mean.data(), rstd.data(),
                                   widen(c.dy).data(), dx.data(), dscale.data(), dbias.data(), mode);
      SCOPED_TRACE(testing::Message() << d.samples << " " << d.groups << " " << d.channels << " " << d.positions);
      EXPECT_LT(relativeError(r.y, y), 1e-5);
      EXPECT_LT(relativeError(r.mean, mean), 1e-6);
      EXPECT_LT(relativeError(r.rstd, rstd), 1e-5);
      EXPECT_LT(relativeError(r.dx, dx), 2e-5);
      EXPECT_LT(relativeError(r.dscale, dscale), 1e-5);
      EXPECT_LT(relativeError(r.dbias, dbias), 1e-5);
    }
}

TEST(GroupNorm, ResultsMayOverwriteOperands) {
  Case c(kGroups[0]);
  const Results want = results(c, WriteMode::kOverwrite, 0);
  Floats x = c.x, mean(c.rows()), rstd(c.rows()), dscale(c.width()), dbias(c.width());
  groupNormForward(c.desc, x.data(), c.scale.data(), c.bias.data(), x.data(), mean.data(), rstd.data());
  EXPECT_TRUE(sameBits(x, want.y));
  Floats workspace(groupNormBackwardWorkspaceBytes(c.desc) / sizeof(float));
  groupNormBackward(c.desc, c.x.data(), c.scale.data(), mean.data(), rstd.data(), c.dy.data(), c.dy.data(),
                    dscale.data(), dbias.data(), WriteMode::kOverwrite, workspace.data());
  EXPECT_TRUE(sameBits(c.dy, want.dx));
  EXPECT_TRUE(sameBits(dscale, want.dscale));
}

TEST(GroupNorm, ReferenceGradientsEqualFiniteDifferences) {
  const GroupNormDesc d = {2, 2, 3, 4, 1e-5};
  const Doubles x = widen(randomFloats(48, 5)), scale = widen(randomFloats(6, 6)), bias = widen(randomFloats(6, 7));
  const Doubles dy = widen(randomFloats(48, 8));
  const auto loss = [&](const Doubles &x, const Doubles &scale, const Doubles &bias) {
    Doubles y(48), mean(4), rstd(4);
    reference::groupNormForward(d, x.data(), scale.data(), bias.data(), y.data(), mean.data(), rstd.data());
    return dot(y, dy);
  };
  Doubles y(48), mean(4), rstd(4), dx(48), dscale(6), dbias(6);
  reference::groupNormForward(d, x.data(), scale.data(), bias.data(), y.data(), mean.data(), rstd.data());
  reference::groupNormBackward(d, x.data(), scale.data(), mean.data(), rstd.data(), dy.data(), dx.data(), dscale.data(),
                               dbias.data(), WriteMode::kOverwrite);
  expectNear(dx, finiteDifferences(x, [&](const Doubles &v) { return loss(v, scale, bias); }), 1e-6);
  expectNear(dscale, finiteDifferences(scale, [&](const Doubles &v) { return loss(x, v, bias); }), 1e-6);
  expectNear(dbias, finiteDifferences(bias, [&](const Doubles &v) { return loss(x, scale, v); }), 1e-6);
}

TEST(GroupNorm, BitsDoNotDependOnThreads) {
  for (const GroupNormDesc &d : kGroups) {
    const Case c(d);
    expectBitsIndependentOfThreads([&] {
      Results r = results(c, WriteMode::kOverwrite, 0);
      for (const Floats *part : {&r.mean, &r.rstd, &r.dx, &r.dscale, &r.dbias})
        r.y.insert(r.y.end(), part->begin(), part->end());
      return r.y;
    });
  }
}

// Samples and groups that another rank has change no bit of those that are here.
TEST(GroupNorm, APartHasTheBitsOfTheWhole) {
  const GroupNormDesc whole = {6, 4, 3, 200}, part = {1, 1, 3, 200};
  const Case all(whole);
  const Results want = results(all, WriteMode::kOverwrite, 0);
  const int64_t group = 13, size = 600;  // of sample 3
  Case one(part);
  std::copy_n(all.x.begin() + group * size, size, one.x.begin());
  std::copy_n(all.dy.begin() + group * size, size, one.dy.begin());
  std::copy_n(all.scale.begin() + group % 4 * 3, 3, one.scale.begin());
  std::copy_n(all.bias.begin() + group % 4 * 3, 3, one.bias.begin());
  const Results got = results(one, WriteMode::kOverwrite, 0);
  const auto partOf = [&](const Floats &of) {
    return Floats(of.begin() + group * size, of.begin() + (group + 1) * size);
  };
  EXPECT_TRUE(sameBits(got.y, partOf(want.y)));
  EXPECT_TRUE(sameBits(got.dx, partOf(want.dx)));
}

}  // namespace
}  // namespace hyc::kernels
