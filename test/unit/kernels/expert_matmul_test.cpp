// Products of rows with their experts' matrices, and the gradient of these, against plain loops in f64.
#include "kernel_test.h"
#include "kernels/expert_matmul/reference.h"

namespace hyc::kernels {
namespace {

// Two experts get more rows than are multiplied at a time, one none; some rows go to nobody.
std::vector<int64_t> someExperts(const ExpertMatmulDesc &d) {
  std::mt19937 generator(7);
  std::vector<int64_t> ids(d.rows);
  for (int64_t &id : ids) {
    const auto draw = static_cast<int64_t>(generator() % 10);
    id = d.start + (draw < 4 ? 0 : draw < 7 ? 2 : draw < 8 ? 3 : draw < 9 ? -1 : d.experts);
  }
  if (d.rows > 2) ids[0] = INT64_MIN, ids[1] = INT64_MAX;  // must not overflow into the matrices
  return ids;
}

struct Operands {
  ExpertMatmulDesc d;
  std::vector<int64_t> ids;
  Floats x, w, dy;
  explicit Operands(ExpertMatmulDesc desc)
      : d(desc),
        ids(someExperts(desc)),
        x(randomFloats(d.rows * d.inputs, 1)),
        w(randomFloats(d.experts * d.inputs * d.outputs, 2)),
        dy(randomFloats(d.rows * d.outputs, 3)) {}

  std::vector<char> scratch(bool isGradient) const {
    return std::vector<char>(ExpertWorkspace<float>(d, omp_get_max_threads(), isGradient).bytes);
  }
  Floats product() const {
    Floats y = notANumber(d.rows * d.outputs);
    expertMatmul(d, ids.data(), x.data(), w.data(), y.data(), scratch(false).data());
    return y;
  }
  Floats gradient(WriteMode mode, Floats dw) const {
    expertMatmulGrad(d, ids.data(), x.data(), dy.data(), dw.data(), mode, scratch(true).data());
    return dw;
  }
};

const ExpertMatmulDesc kShapes[] = {{1000, 4, 37, 45, false, 0}, {1000, 4, 37, 45, true, 5}, {3, 5, 8, 1, false, 2}};

TEST(ExpertMatmul, IsTheProductOfEachRowWithItsExpertsMatrix) {
  for (const ExpertMatmulDesc &d : kShapes) {
    const Operands o(d);
    Doubles want(d.rows * d.outputs);
    reference::expertMatmul(d, o.ids.data(), widen(o.x).data(), widen(o.w).data(), want.data());
    EXPECT_LT(relativeError(o.product(), want), 1e-6);
  }
}

TEST(ExpertMatmul, RowsHaveTheBitsThatTheyHaveAlone) {
  const Operands all(kShapes[0]);
  const Floats whole = all.product();
  Operands one(kShapes[0]);
  one.d.rows = 1;
  for (int64_t n : {0, 5, 997}) {
    one.ids = {all.ids[n]};
    one.x.assign(all.x.begin() + n * one.d.inputs, all.x.begin() + (n + 1) * one.d.inputs);
    const auto begin = whole.begin() + n * one.d.outputs;
    EXPECT_TRUE(sameBits(one.product(), Floats(begin, begin + one.d.outputs))) << "row " << n;
  }
}

TEST(ExpertMatmul, GradientSumsRowsOfEachExpertInBothModes) {
  for (const ExpertMatmulDesc &d : kShapes)
    for (WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
      const Operands o(d);
      const int64_t count = d.experts * d.inputs * d.outputs;
      const Floats before = mode == WriteMode::kAccumulate ? randomFloats(count, 4) : notANumber(count);
      Doubles want = widen(before);
      reference::expertMatmulGrad(d, o.ids.data(), widen(o.x).data(), widen(o.dy).data(), want.data(), mode);
      EXPECT_LT(relativeError(o.gradient(mode, before), want), 1e-6);
    }
}

TEST(ExpertMatmul, ReferenceGradientEqualsFiniteDifferences) {
  const Operands o({6, 3, 2, 3, true, 1});
  Doubles dw(3 * 2 * 3);
  reference::expertMatmulGrad(o.d, o.ids.data(), widen(o.x).data(), widen(o.dy).data(), dw.data(),
                              WriteMode::kOverwrite);
  const auto loss = [&](const Doubles &w) {
    Doubles y(o.d.rows * o.d.outputs);
    reference::expertMatmul(o.d, o.ids.data(), widen(o.x).data(), w.data(), y.data());
    return dot(y, widen(o.dy));
  };
  expectNear(dw, finiteDifferences(widen(o.w), loss), 1e-8);
}

TEST(ExpertMatmul, BitsDoNotDependOnThreads) {
  const Operands o({1500, 4, 130, 200, false, 0});
  expectBitsIndependentOfThreads([&] { return o.product(); });
  const Floats zeros(o.w.size());
  expectBitsIndependentOfThreads([&] { return o.gradient(WriteMode::kOverwrite, zeros); });
}

}  // namespace
}  // namespace hyc::kernels
