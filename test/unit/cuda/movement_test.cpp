// Copies, sums, rounding, fills, and products.
#include "device_test.h"
#include "kernels/copy/cuda.h"
#include "kernels/counter/cuda.h"
#include "kernels/gemm/cuda.h"
#include "kernels/gemm/reference.h"
#include "kernels/permute/reference.h"

namespace hyc::kernels::cuda {
namespace {

struct Movement : CudaTest {};
struct Gemm : CudaTest {};

template <typename Element> void expectCopy(const StridedCopyDesc &given, int64_t srcSize, int64_t dstSize) {
  StridedCopyDesc desc = given;
  desc.elementBytes = sizeof(Element);
  std::vector<Element> src(static_cast<size_t>(srcSize)), want(static_cast<size_t>(dstSize), Element(7));
  for (size_t i = 0; i < src.size(); ++i)
    src[i] = static_cast<Element>(i * 3 + 1);
  DeviceArray<Element> from(src), to(want);
  stridedCopy(nullptr, desc, from, to);
  reference::stridedCopy(desc, src.data(), want.data());
  EXPECT_TRUE(sameBits(to.read(), want)) << sizeof(Element) << " bytes";
}

TEST_F(Movement, CopiesBetweenAnyStrides) {
  const StridedCopyDesc transposed{3, {3, 40, 17}, {680, 1, 40}, {680, 17, 1}, 0};
  const StridedCopyDesc rows{2, {5, 32}, {64, 1}, {48, 1}, 0}; // in packs
  const StridedCopyDesc broadcast{2, {6, 16}, {0, 1}, {16, 1}, 0};
  for (const auto &desc : {transposed, rows, broadcast}) {
    expectCopy<uint8_t>(desc, 2040, 2040);
    expectCopy<uint16_t>(desc, 2040, 2040);
    expectCopy<uint32_t>(desc, 2040, 2040);
    expectCopy<uint64_t>(desc, 2040, 2040);
  }
  expectCopy<uint32_t>({}, 1, 1);
}

TEST_F(Movement, CountsAtThePlacesThatAreNamed) {
  DeviceArray<uint64_t> counts(std::vector<uint64_t>{0, 5, ~uint64_t{0} >> 32, 7});
  Counters counters;
  for (int i : {1, 2, 3})
    counters.at[counters.count++] = counts + i;
  countUp(nullptr, counters);
  counters.count = 2;
  countUp(nullptr, counters);
  EXPECT_EQ(counts.read(), (std::vector<uint64_t>{0, 7, (uint64_t{1} << 32) + 1, 8}));
}

TEST_F(Movement, SlicesShardsAndFillsUpWithZeros) {
  ShardSliceDesc desc;
  desc.outer = 2, desc.whole = 10, desc.part = 4, desc.inner = 3, desc.start = 8;
  const auto src = randomValues<float>(60, 1);
  std::vector<float> want(24);
  kernels::shardSlice(desc, src.data(), want.data());
  DeviceArray<float> from(src), to(24);
  shardSlice(nullptr, desc, from, to);
  EXPECT_TRUE(sameBits(to.read(), want));
}

template <typename T> void expectAccumulate(int64_t n) {
  const auto x = randomValues<T>(n, 1), y = randomValues<T>(n, 2);
  std::vector<T> want;
  for (size_t i = 0; i < x.size(); ++i)
    want.push_back(T(x[i] + y[i]));
  DeviceArray<T> to(x), from(y);
  accumulate<T>(nullptr, to, from, n, WriteMode::kAccumulate);
  EXPECT_TRUE(sameBits(to.read(), want));
  accumulate<T>(nullptr, to, from, n, WriteMode::kOverwrite);
  EXPECT_TRUE(sameBits(to.read(), y));
}

TEST_F(Movement, AddsAndRoundsOnce) {
  expectAccumulate<float>(1000);
  expectAccumulate<float>(333);
  expectAccumulate<Bf16>(999);
  expectAccumulate<F16>(64);
  for (const int64_t n : {int64_t{64}, int64_t{77}}) {
    const auto x = randomValues<float>(n, 3);
    DeviceArray<float> from(x);
    DeviceArray<Bf16> to(n);
    roundElements<Bf16>(nullptr, to, from, n);
    std::vector<Bf16> want(x.begin(), x.end());
    EXPECT_TRUE(sameBits(to.read(), want));
  }
}

// Each number of 16 bits, what is a quarter, a half and three quarters of the way to the next, and beside the half: the
// device's own conversions give the bits of narrow_float.h. NaN stays NaN.
template <typename T> void expectRounding(int lostBits) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    T number;
    number.bits = static_cast<uint16_t>(bits);
    const uint32_t wide = narrow::bitsOf(number), unit = 1u << lostBits;
    for (const uint32_t part : {0u, unit / 4, unit / 2 - 1, unit / 2, unit / 2 + 1, unit / 4 * 3})
      x.push_back(narrow::floatOf(wide + part));
  }
  const int64_t n = static_cast<int64_t>(x.size());
  DeviceArray<float> from(x), back(n);
  DeviceArray<T> to(n);
  roundElements<T>(nullptr, to, from, n);
  const std::vector<T> got = to.read();
  for (size_t i = 0; i < x.size(); ++i) {
    const T want(x[i]);
    if (std::isnan(x[i]))
      ASSERT_TRUE(std::isnan(static_cast<float>(got[i]))) << i;
    else
      ASSERT_EQ(got[i].bits, want.bits) << x[i];
  }
}

TEST_F(Movement, RoundsEveryNumberToNearestWithTiesToEven) {
  expectRounding<Bf16>(16);
  expectRounding<F16>(13);
}

TEST_F(Movement, FillsAndUploads) {
  DeviceArray<int64_t> numbers(300);
  fill<int64_t>(nullptr, numbers, 300, 42);
  EXPECT_EQ(numbers.read(), std::vector<int64_t>(300, 42));
  static const float constants[] = {1, 2, 3};
  DeviceArray<float> to(3);
  upload(nullptr, to, constants, sizeof constants);
  EXPECT_EQ(to.read(), std::vector<float>({1, 2, 3}));
  for (const int64_t n : {1001, 40001}) { // of several launches, and of none
    std::vector<float> many(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      many[static_cast<size_t>(i)] = static_cast<float>(i);
    DeviceArray<float> copy(n);
    upload(nullptr, copy, many.data(), n * int64_t{sizeof(float)});
    EXPECT_EQ(copy.read(), many);
  }
}

template <typename T, typename C>
void expectGemm(const GemmDesc &d, int64_t aSize, int64_t bSize, int64_t cSize, double tolerance) {
  SCOPED_TRACE(testing::Message() << d.m << " × " << d.n << " × " << d.k << ", " << d.transA << d.transB << ", beta "
                                  << d.beta << ", bias " << d.hasBias << ", bytes " << sizeof(T) << sizeof(C));
  const auto a = randomValues<T>(aSize, 1), b = randomValues<T>(bSize, 2), bias = randomValues<T>(d.n, 3);
  const auto c = randomValues<C>(cSize, 4);
  Doubles want = widened(c);
  reference::gemm(d, widened(a).data(), widened(b).data(), widened(bias).data(), want.data());
  DeviceArray<T> dA(a), dB(b), dBias(bias);
  DeviceArray<C> dC(c);
  DeviceArray<uint8_t> workspace(kGemmWorkspaceBytes);
  gemm(nullptr, d, dA.get(), dB.get(), dBias.get(), dC.get(), workspace.get());
  ASSERT_EQ(gemmFailure(), nullptr);
  EXPECT_LT(relativeError(dC.readDoubles(), want), tolerance);
}

TEST_F(Gemm, EqualsTheReferenceInEveryForm) {
  for (const bool transA : {false, true})
    for (const bool transB : {false, true})
      for (const double beta : {0.0, 1.0})
        for (const bool hasBias : {false, true}) {
          GemmDesc d;
          d.m = 24, d.n = 40, d.k = 56;
          d.transA = transA, d.transB = transB, d.beta = beta, d.hasBias = hasBias;
          expectGemm<float, float>(d, d.m * d.k, d.k * d.n, d.m * d.n, 2e-6);
          expectGemm<Bf16, Bf16>(d, d.m * d.k, d.k * d.n, d.m * d.n, 2 * kEpsilon<Bf16>);
          expectGemm<Bf16, float>(d, d.m * d.k, d.k * d.n, d.m * d.n, 2e-6);
          expectGemm<F16, F16>(d, d.m * d.k, d.k * d.n, d.m * d.n, 2 * kEpsilon<F16>);
        }
}

TEST_F(Gemm, TakesStridesBatchesAndOddSizes) {
  GemmDesc odd;
  odd.m = 3, odd.n = 5, odd.k = 7;
  odd.lda = 9, odd.ldb = 11, odd.ldc = 6;
  expectGemm<float, float>(odd, 27, 77, 18, 2e-6);
  expectGemm<Bf16, float>(odd, 27, 77, 18, 2e-6);
  GemmDesc batch;
  batch.m = 8, batch.n = 16, batch.k = 24, batch.batch = 3;
  batch.strideA = 8 * 24, batch.strideB = 0, batch.strideC = 8 * 16;
  expectGemm<float, float>(batch, 3 * 8 * 24, 24 * 16, 3 * 8 * 16, 2e-6);
  GemmDesc empty;
  empty.m = 4, empty.n = 8, empty.k = 0, empty.beta = 1, empty.hasBias = true;
  expectGemm<Bf16, Bf16>(empty, 8, 8, 32, 2 * kEpsilon<Bf16>);
}

// Rows begin at multiples of 16 bytes and end within such packs, as logits of an odd vocabulary: whole packs and the
// rest are products of their own.
TEST_F(Gemm, TakesRowsThatEndWithinAPack) {
  for (const bool transA : {false, true})
    for (const bool transB : {false, true})
      for (const double beta : {0.0, 1.0}) {
        GemmDesc d;
        d.m = 81, d.n = 77, d.k = 131;
        d.lda = transA ? 88 : 136, d.ldb = transB ? 136 : 80, d.ldc = 80;
        d.transA = transA, d.transB = transB, d.beta = beta, d.hasBias = true;
        const int64_t aSize = (transA ? d.k : d.m) * d.lda, bSize = (transB ? d.n : d.k) * d.ldb, cSize = d.m * d.ldc;
        expectGemm<Bf16, Bf16>(d, aSize, bSize, cSize, 2 * kEpsilon<Bf16>);
        expectGemm<Bf16, float>(d, aSize, bSize, cSize, 2e-6);
        expectGemm<F16, F16>(d, aSize, bSize, cSize, 2 * kEpsilon<F16>);
        expectGemm<F16, float>(d, aSize, bSize, cSize, 2e-6);
      }
  GemmDesc batch;
  batch.m = 8, batch.n = 67, batch.k = 69, batch.batch = 3;
  batch.lda = batch.ldc = 72, batch.ldb = 72;
  batch.strideA = 8 * 72, batch.strideB = 69 * 72, batch.strideC = 8 * 72;
  expectGemm<Bf16, Bf16>(batch, 3 * 8 * 72, 3 * 69 * 72, 3 * 8 * 72, 2 * kEpsilon<Bf16>);
}

// A part of a sum may be beyond what the result's type holds, and the sum not.
TEST_F(Gemm, HoldsSumsWhosePartsAreTooLarge) {
  GemmDesc d;
  d.m = d.n = 64, d.k = 65, d.lda = 72;
  std::vector<F16> a(static_cast<size_t>(d.m * d.lda), F16(0.0f)), b(static_cast<size_t>(d.k * d.n), F16(0.0f));
  for (int64_t i = 0; i < d.m; ++i) {
    a[static_cast<size_t>(i * d.lda)] = F16(-200.0f), a[static_cast<size_t>(i * d.lda + 64)] = F16(256.0f);
    b[static_cast<size_t>(i)] = F16(100.0f), b[static_cast<size_t>(64 * d.n + i)] = F16(300.0f);
  }
  DeviceArray<F16> dA(a), dB(b), dC(d.m * d.n);
  DeviceArray<uint8_t> workspace(kGemmWorkspaceBytes);
  gemm(nullptr, d, dA.get(), dB.get(), nullptr, dC.get(), workspace.get());
  ASSERT_EQ(gemmFailure(), nullptr);
  EXPECT_EQ(dC.readDoubles(), Doubles(static_cast<size_t>(d.m * d.n), 256.0 * 300 - 200.0 * 100));
}

} // namespace
} // namespace hyc::kernels::cuda
