// Gather, scatter, cumulative sums and argsort against plain loops.
#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernel_test.h"
#include "kernels/argsort/reference.h"
#include "kernels/cumsum/reference.h"
#include "kernels/gather/reference.h"

namespace hyc::kernels {
namespace {

const GatherDesc kGathers[] = {
    {3, 5, 11, 7, 19}, {1, 1, 50, 300, 64}, {40, 1, 9, 4, 1}, {2, 3, 1, 5, 33}, {2, 2, 50, 20000, 1}};

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

// Many lines beside the dimension; one, a few, and of more than one chunk; nothing.
template <typename T>
void expectPlainSums() {
  for (bool reverse : {false, true})
    for (bool exclusive : {false, true})
      for (const auto &[outer, size, inner] : std::initializer_list<std::array<int64_t, 3>>{
               {7, 113, 130}, {37, 1003, 1}, {19, 65, 3}, {3, 64, 7}, {1, 5, 1}, {4, 50, 9}, {3, 0, 1}, {3, 4, 0}}) {
        const CumSumDesc d = {outer, size, inner, reverse, exclusive};
        const Floats random = randomFloats(outer * size * inner, 4);
        std::vector<T> x, want(random.size());
        for (float value : random) x.push_back(static_cast<T>(value * 1000));
        reference::cumSum(d, x.data(), want.data());
        expectBitsIndependentOfThreads([&] {
          std::vector<T> got(x.size(), T(-7));
          cumSum(d, x.data(), got.data());
          EXPECT_EQ(got, want) << outer << " × " << size << " × " << inner;
          return Floats(got.begin(), got.end());
        });
      }
}
TEST(CumSum, HasTheBitsOfThePlainLoopsInAllFourForms) {
  expectPlainSums<float>();
  expectPlainSums<double>();
  expectPlainSums<int64_t>();
  expectPlainSums<int32_t>();
}

template <typename T>
void expectOrder(const ArgSortDesc &d, const std::vector<T> &x) {
  const auto size = static_cast<size_t>(d.rows * d.count);
  std::vector<int64_t> got(size, -7), want(size);
  std::vector<std::byte> workspace(
      static_cast<size_t>(argSortWorkspaceBytes(d.size, sizeof(T), omp_get_max_threads())));
  argSort(d, x.data(), got.data(), workspace.data());
  reference::argSort(d, x.data(), want.data());
  EXPECT_EQ(got, want) << d.count << " of " << d.size << (d.descending ? " descending" : "");
  std::vector<int64_t> withoutWorkspace(size, -7);
  argSort(d, x.data(), withoutWorkspace.data());
  EXPECT_EQ(withoutWorkspace, want);
}

TEST(ArgSort, KeepsTheOrderOfEqualElementsAndPutsNaNAbove) {
  for (int64_t size : {0, 1, 2, 3, 17, 64, 101})
    for (bool descending : {false, true}) {
      const ArgSortDesc d = {5, size, size, descending};
      Floats x = randomFloats(d.rows * size, 6);
      for (size_t i = 0; i < x.size(); i += 3) x[i] = 0.25f;
      if (size > 5) x[4] = NAN;
      expectOrder(d, x);
    }
}

// Some equal, some of which a part has no place, NaN, both zeros and infinities among them.
template <typename T>
std::vector<T> rowsWithEqualElements(int64_t count, bool isAscending) {
  std::vector<T> x(static_cast<size_t>(count));
  const Floats random = randomFloats(count, 7);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(random[i] * 100);
  if (isAscending) std::sort(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); i += 5) x[i] = T(i % 2 ? 7 : -7);
  if constexpr (std::is_floating_point_v<T>)
    for (size_t i = 3; i + 4 < x.size(); i += 41) {
      x[i] = std::numeric_limits<T>::quiet_NaN(), x[i + 1] = T(-0.0), x[i + 2] = T(0);
      x[i + 3] = std::numeric_limits<T>::infinity(), x[i + 4] = -x[i + 3];
    }
  else if (x.size() > 9)
    x[8] = std::numeric_limits<T>::min(), x[9] = std::numeric_limits<T>::max();
  return x;
}

template <typename T>
void expectOrdersOfAllLengths() {
  for (int64_t size : {3, 16, 64, 65, 100, 300, 1024, 3000})
    for (int64_t count :
         {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{8}, int64_t{64}, int64_t{65}, size / 9, size / 2, size})
      for (bool descending : {false, true})
        for (bool isAscending : {false, true})
          expectOrder({3, size, std::min(count, size), descending}, rowsWithEqualElements<T>(3 * size, isAscending));
}
TEST(ArgSort, GivesTheBeginningOfTheOrderOfF32) { expectOrdersOfAllLengths<float>(); }
TEST(ArgSort, GivesTheBeginningOfTheOrderOfF64) { expectOrdersOfAllLengths<double>(); }
TEST(ArgSort, GivesTheBeginningOfTheOrderOfI64) { expectOrdersOfAllLengths<int64_t>(); }
TEST(ArgSort, GivesTheBeginningOfTheOrderOfI32) { expectOrdersOfAllLengths<int32_t>(); }

// Elements that part badly wherever one is taken from the middle of three: the largest always lie there.
TEST(ArgSort, SelectsWhereEveryPartingElementIsBad) {
  constexpr int64_t kSize = 4000;
  Floats x(kSize);
  for (int64_t i = 0; i < kSize; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 2 ? kSize + i : i / 2);
  for (int64_t count : {1, 100, 300}) expectOrder({1, kSize, count, false}, x);
}

}  // namespace
}  // namespace hyc::kernels
