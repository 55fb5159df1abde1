// Gather, scatter, running sums, the order of rows, and weights of their codes: the reference's bits.
#include "device_test.h"
#include "kernels/argsort/cuda.h"
#include "kernels/argsort/reference.h"
#include "kernels/cumsum/cuda.h"
#include "kernels/cumsum/reference.h"
#include "kernels/dequantize/cuda.h"
#include "kernels/dequantize/reference.h"
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
      const ArgSortDesc d = {5, size, size > 3 ? size / 2 : size, descending};
      auto x = randomValues<float>(d.rows * size, 6);
      for (size_t i = 0; i < x.size(); i += 3)
        x[i] = 0.25f;
      if (size > 5)
        x[4] = NAN;
      std::vector<int64_t> want(static_cast<size_t>(d.rows * d.count));
      reference::argSort(d, x.data(), want.data());
      DeviceArray<float> dX(x);
      DeviceArray<int64_t> got(d.rows * d.count);
      argSort<float>(nullptr, d, dX, got);
      EXPECT_EQ(got.read(), want) << size << " " << descending;
    }
}

std::vector<uint8_t> randomBytes(size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<uint8_t> bytes(n);
  for (uint8_t &byte : bytes)
    byte = static_cast<uint8_t>(generator());
  return bytes;
}

// A part of a matrix of 90 × 140 that begins inside of a block, and of its transpose; where it begins is on the device.
template <typename T> void expectDequantized(bool inputsFirst) {
  DequantizeDesc desc;
  desc.inputs = 140;
  desc.sizes[3] = 3, desc.sizes[4] = 5, desc.sizes[5] = 22;
  desc.strides[3] = inputsFirst ? 30 : 30 * 140, desc.strides[4] = inputsFirst ? 1 : 140;
  desc.strides[5] = inputsFirst ? 140 : 1;
  desc.start = 7 * 140 + 33;
  const size_t count = 3 * 5 * 22, blocks = 90 * 140 / 64 + 1;
  const std::vector<uint8_t> codes = randomBytes(count, 1), absmax = randomBytes(blocks, 2);
  const std::vector<float> rows = randomValues<float>(90, 3), scales = randomValues<float>(1, 4), mean{0.75f};
  DeviceArray<uint8_t> dCodes(codes), dAbsmax(absmax);
  DeviceArray<float> dRows(rows), dScales(scales), dMean(mean);
  DeviceArray<int64_t> dStart(std::vector<int64_t>{desc.start});
  DeviceArray<T> int8(static_cast<int64_t>(count)), nf4(static_cast<int64_t>(count));
  std::vector<float> wantInt8(count), wantNf4(count);
  reference::dequantizeInt8(desc, codes.data(), rows.data(), wantInt8.data());
  reference::dequantizeNf4(desc, codes.data(), absmax.data(), scales.data(), mean.data(), wantNf4.data());
  DequantizeDesc elsewhere = desc;
  elsewhere.start = 0;
  dequantizeInt8<T>(nullptr, elsewhere, dStart, dCodes, dRows, int8);
  dequantizeNf4<T>(nullptr, desc, nullptr, dCodes, dAbsmax, dScales, dMean, nf4);
  const std::vector<T> gotInt8 = int8.read(), gotNf4 = nf4.read();
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(static_cast<float>(gotInt8[i]), static_cast<float>(T(wantInt8[i]))) << i;
    EXPECT_EQ(static_cast<float>(gotNf4[i]), static_cast<float>(T(wantNf4[i]))) << i;
  }
}

TEST_F(Indexing, DequantizesByPlace) {
  for (bool inputsFirst : {false, true}) {
    expectDequantized<float>(inputsFirst);
    expectDequantized<Bf16>(inputsFirst);
  }
}

} // namespace
} // namespace hyc::kernels::cuda
