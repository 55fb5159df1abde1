// Resampling against plain loops in f64, in all orders of its passes: short and long rows, one to three dimensions,
// slabs that are many and one that all threads share.
#include "kernel_test.h"
#include "kernels/isa/dispatch.h"
#include "kernels/narrow_float.h"
#include "kernels/resample/passes.h"
#include "kernels/resample/reference.h"

namespace hyc::kernels {
namespace {

struct Case {
  ResampleDesc desc;
  std::vector<int64_t> firsts;
  Floats weights, x;

  explicit Case(const ResampleDesc &d) : desc(d) {
    std::mt19937 generator(1);
    int64_t count = 0;
    for (int i = 0; i < kResampledDims; ++i) {
      if (d.taps[i] == 0) continue;
      for (int64_t t = 0; t < d.to[i]; ++t)
        firsts.push_back(std::uniform_int_distribution<int64_t>(0, d.from[i] - d.taps[i])(generator));
      count += d.to[i] * d.taps[i];
    }
    weights = randomFloats(count, 2);
    x = randomFloats(d.outer * d.from[0] * d.from[1] * d.from[2] * d.inner, 3);
  }
  int64_t results() const { return desc.outer * desc.to[0] * desc.to[1] * desc.to[2] * desc.inner; }
};

const ResampleDesc kCases[] = {
    {3, 1, {1, 1, 7}, {1, 1, 13}, {0, 0, 2}},        // lines alone, few of them
    {500, 1, {1, 1, 31}, {1, 1, 9}, {0, 0, 5}},      // lines in blocks, and some left
    {2, 3, {1, 1, 300}, {1, 1, 500}, {0, 0, 4}},     // lines of three channels, long ones
    {5, 77, {1, 1, 6}, {1, 1, 11}, {0, 0, 1}},       // rows of vectors and a tail
    {70, 1, {1, 32, 33}, {1, 63, 66}, {0, 2, 2}},    // both larger, in many slabs
    {70, 1, {1, 40, 41}, {1, 20, 21}, {0, 8, 7}},    // both smaller
    {9, 2, {1, 12, 40}, {1, 30, 17}, {0, 4, 4}},     // one of each
    {1, 5, {1, 200, 130}, {1, 90, 300}, {0, 3, 2}},  // one slab, which all threads share
    {4, 1, {5, 6, 7}, {9, 4, 15}, {2, 3, 2}},        // volumes
    {1, 20, {30, 9, 40}, {31, 8, 41}, {2, 9, 4}},    // a volume of channels, shared
};

template <typename T>
std::vector<T> resampled(const Case &c, const std::vector<T> &x) {
  std::vector<T> y(static_cast<size_t>(c.results()), T(std::nanf("")));
  Floats workspace =
      notANumber(resampling::workspaceBytes(c.desc, omp_get_max_threads()) / static_cast<int64_t>(sizeof(float)));
  resample(c.desc, x.data(), c.firsts.data(), c.weights.data(), y.data(), workspace.data());
  std::vector<T> withoutWorkspace(y.size(), T(std::nanf("")));
  resample(c.desc, x.data(), c.firsts.data(), c.weights.data(), withoutWorkspace.data());
  EXPECT_EQ(std::memcmp(y.data(), withoutWorkspace.data(), y.size() * sizeof(T)), 0);
  return y;
}

TEST(Resample, EqualsThePlainLoops) {
  for (const ResampleDesc &d : kCases) {
    const Case c(d);
    Doubles want(static_cast<size_t>(c.results()));
    reference::resample(d, widen(c.x).data(), c.firsts.data(), widen(c.weights).data(), want.data());
    SCOPED_TRACE(testing::Message() << d.outer << " × " << d.from[0] << " " << d.from[1] << " " << d.from[2] << " × "
                                    << d.inner);
    EXPECT_LT(relativeError(resampled(c, c.x), want), 1e-6);
  }
}

TEST(Resample, BitsDoNotDependOnThreads) {
  for (const ResampleDesc &d : kCases) {
    const Case c(d);
    expectBitsIndependentOfThreads([&] { return resampled(c, c.x); });
  }
}

// Samples that another rank has change no bit, whichever slabs they are in.
TEST(Resample, APartHasTheBitsOfTheWhole) {
  const Case whole({70, 1, {1, 32, 33}, {1, 63, 66}, {0, 2, 2}});
  const Floats want = resampled(whole, whole.x);
  Case part({3, 1, {1, 32, 33}, {1, 63, 66}, {0, 2, 2}});
  part.x.assign(whole.x.begin() + 41 * 32 * 33, whole.x.begin() + 44 * 32 * 33);
  EXPECT_TRUE(sameBits(resampled(part, part.x), Floats(want.begin() + 41 * 63 * 66, want.begin() + 44 * 63 * 66)));
}

template <typename T>
void expectF32RoundedOnce(const ResampleDesc &d) {
  Case c(d);
  std::vector<T> x, got;
  for (float &value : c.x) {
    x.push_back(T(value));
    value = static_cast<float>(x.back());
  }
  const Floats want = resampled(c, c.x);
  got = resampled(c, x);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_EQ(static_cast<float>(got[i]), static_cast<float>(T(want[i]))) << "element " << i;
}

TEST(Resample, OfSixteenBitsIsF32RoundedOnce) {
  for (const ResampleDesc &d : kCases) {
    expectF32RoundedOnce<Bf16>(d);
    expectF32RoundedOnce<F16>(d);
  }
}

}  // namespace
}  // namespace hyc::kernels
