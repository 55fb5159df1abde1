// Gather, scatter, cumulative sums and argsort against plain loops.
#include "kernel_test.h"
#include "kernels/argsort/reference.h"
#include "kernels/cumsum/reference.h"
#include "kernels/gather/reference.h"

namespace hyc::kernels {
namespace {

const GatherDesc kGathers[] = {{3, 5, 11, 7, 19}, {1, 1, 50, 300, 64}, {40, 1, 9, 4, 1}, {2, 3, 1, 5, 33}};

// Some beyond both ends.
std::vector<int64_t> someIndices(const GatherDesc &d) {
  std::mt19937 generator(3);
  std::vector<int64_t> indices(d.batch * d.picked);
  for (int64_t &index : indices) index = static_cast<int64_t>(generator() % (d.size + 2)) - 1;
  indices.front() = INT64_MIN;
  indices.back() = INT64_MAX;
  return indices;
}

TEST(Gather, EqualsThePlainLoopsForEveryElementSize) {
  for (const GatherDesc &d : kGathers) {
    const std::vector<int64_t> indices = someIndices(d);
    const auto check = [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> data(d.batch * d.lead * d.size * d.inner), got(d.batch * d.lead * d.picked * d.inner, T(77));
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<T>(i * 31 + 1);
      std::vector<T> want(got.size());
      gather(d, sizeof(T), data.data(), indices.data(), got.data());
      reference::gather(d, data.data(), indices.data(), want.data());
      EXPECT_EQ(got, want) << sizeof(T);
    };
    check(uint8_t{});
    check(uint16_t{});
    check(float{});
    check(double{});
  }
}

TEST(Scatter, HasTheBitsOfThePlainLoopsAtAnyNumberOfThreads) {
  for (const GatherDesc &d : kGathers)
    for (ScatterKind kind : {ScatterKind::kSum, ScatterKind::kMax, ScatterKind::kMin, ScatterKind::kProd}) {
      const std::vector<int64_t> indices = someIndices(d);
      const Floats rows = randomFloats(d.batch * d.lead * d.picked * d.inner, 9);
      Floats want(d.batch * d.lead * d.size * d.inner);
      reference::scatter(d, kind, indices.data(), rows.data(), want.data());
      expectBitsIndependentOfThreads([&] {
        Floats got = notANumber(want.size());
        scatter(d, kind, indices.data(), rows.data(), got.data());
        EXPECT_TRUE(sameBits(got, want));
        return got;
      });
    }
}

TEST(CumSum, HasTheBitsOfThePlainLoopsInAllFourForms) {
  for (bool reverse : {false, true})
    for (bool exclusive : {false, true}) {
      const CumSumDesc d = {7, 113, 130, reverse, exclusive};
      const Floats x = randomFloats(d.outer * d.size * d.inner, 4);
      Floats want(x.size());
      reference::cumSum(d, x.data(), want.data());
      expectBitsIndependentOfThreads([&] {
        Floats got = notANumber(x.size());
        cumSum(d, x.data(), got.data());
        EXPECT_TRUE(sameBits(got, want));
        return got;
      });
    }
}

TEST(ArgSort, KeepsTheOrderOfEqualElementsAndPutsNaNAbove) {
  for (int64_t size : {0, 1, 2, 3, 17, 64, 101})
    for (bool descending : {false, true}) {
      const ArgSortDesc d = {5, size, descending};
      Floats x = randomFloats(d.rows * size, 6);
      for (size_t i = 0; i < x.size(); i += 3) x[i] = 0.25f;
      if (size > 5) x[4] = NAN;
      std::vector<int64_t> got(x.size(), -7), want(x.size()), workspace(x.size());
      argSort(d, x.data(), got.data(), workspace.data());
      reference::argSort(d, x.data(), want.data());
      EXPECT_EQ(got, want) << size << " " << descending;
    }
}

}  // namespace
}  // namespace hyc::kernels
