// Gather, scatter, running sums and the order of rows: the reference's bits.
#include "device_test.h"
#include "kernels/argsort/cuda.h"
#include "kernels/argsort/reference.h"
#include "kernels/cumsum/cuda.h"
#include "kernels/cumsum/reference.h"
#include "kernels/gather/cuda.h"
#include "kernels/gather/reference.h"

namespace hyc::kernels::cuda {
namespace {

struct Indexing : CudaTest {};

const GatherDesc kGathers[] = {{3, 5, 11, 7, 19}, {1, 1, 50, 300, 64}, {40, 1, 9, 4, 1}, {2, 3, 1, 5, 33}};

// Some beyond both ends.
std::vector<int64_t> someIndices(const GatherDesc &d) {
  std::mt19937 generator(3);
  std::vector<int64_t> indices(static_cast<size_t>(d.batch * d.picked));
  for (int64_t &index : indices)
    index = static_cast<int64_t>(generator() % static_cast<unsigned>(d.size + 2)) - 1;
  indices.front() = INT64_MIN;
  indices.back() = INT64_MAX;
  return indices;
}

template <typename T> void expectGather(const GatherDesc &d) {
  const std::vector<int64_t> indices = someIndices(d);
  std::vector<T> data(static_cast<size_t>(d.batch * d.lead * d.size * d.inner));
  std::vector<T> want(static_cast<size_t>(d.batch * d.lead * d.picked * d.inner));
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<T>(i * 31 + 1);
  reference::gather(d, data.data(), indices.data(), want.data());
  DeviceArray<T> dData(data), got(static_cast<int64_t>(want.size()));
  DeviceArray<int64_t> dIndices(indices);
  gather(nullptr, d, sizeof(T), dData, dIndices, got);
  EXPECT_TRUE(sameBits(got.read(), want)) << sizeof(T) << " bytes";
}

TEST_F(Indexing, GathersEveryElementSize) {
  for (const GatherDesc &d : kGathers) {
    expectGather<uint8_t>(d);
    expectGather<uint16_t>(d);
    expectGather<float>(d);
    expectGather<double>(d);
  }
}

template <typename T> void expectScatter(const GatherDesc &d, ScatterKind kind) {
  const std::vector<int64_t> indices = someIndices(d);
  std::vector<T> rows;
  for (const float value : randomValues<float>(d.batch * d.lead * d.picked * d.inner, 9))
    rows.push_back(static_cast<T>(value * 8));
  std::vector<T> want(static_cast<size_t>(d.batch * d.lead * d.size * d.inner));
  reference::scatter(d, kind, indices.data(), rows.data(), want.data());
  DeviceArray<T> dRows(rows), got(static_cast<int64_t>(want.size()));
  DeviceArray<int64_t> dIndices(indices);
  scatter<T>(nullptr, d, kind, dIndices, dRows, got);
  EXPECT_TRUE(sameBits(got.read(), want)) << "kind " << static_cast<int>(kind) << ", " << sizeof(T) << " bytes";
}

TEST_F(Indexing, ScattersInTheOrderOfTheRows) {
  for (const GatherDesc &d : kGathers)
    for (const ScatterKind kind : {ScatterKind::kSum, ScatterKind::kMax, ScatterKind::kMin, ScatterKind::kProd}) {
      expectScatter<float>(d, kind);
      expectScatter<double>(d, kind);
      expectScatter<int64_t>(d, kind);
      expectScatter<int32_t>(d, kind);
    }
}

TEST_F(Indexing, AddsRunningSumsOneByOne) {
  for (const bool reverse : {false, true})
    for (const bool exclusive : {false, true}) {
      const CumSumDesc d = {3, 113, 13, reverse, exclusive};
      const auto x = randomValues<float>(d.outer * d.size * d.inner, 4);
      std::vector<float> want(x.size());
      reference::cumSum(d, x.data(), want.data());
      DeviceArray<float> dX(x), got(static_cast<int64_t>(x.size()));
      cumSum<float>(nullptr, d, dX, got);
      EXPECT_TRUE(sameBits(got.read(), want)) << reverse << exclusive;
    }
}

TEST_F(Indexing, SortsStablyAndPutsNaNAbove) {
  for (const int64_t size : {1, 2, 3, 17, 64, 601})
    for (const bool descending : {false, true}) {
      const ArgSortDesc d = {5, size, descending};
      auto x = randomValues<float>(d.rows * size, 6);
      for (size_t i = 0; i < x.size(); i += 3)
        x[i] = 0.25f;
      if (size > 5)
        x[4] = NAN;
      std::vector<int64_t> want(x.size());
      reference::argSort(d, x.data(), want.data());
      DeviceArray<float> dX(x);
      DeviceArray<int64_t> got(static_cast<int64_t>(x.size())), workspace(static_cast<int64_t>(x.size()));
      argSort<float>(nullptr, d, dX, got, workspace);
      EXPECT_EQ(got.read(), want) << size << " " << descending;
    }
}

} // namespace
} // namespace hyc::kernels::cuda
