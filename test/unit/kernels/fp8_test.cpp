// 8-bit floats: conversions against torch's, code by code and at every tie; products against f64 and against the kernel
// of bf16; delayed scaling against the recipe in f64.
#include "kernels/gemm/fp8.h"

#include <limits>

#include "kernel_test.h"
#include "kernels/fp8_scale/op.h"
#include "kernels/fp8_scale/reference.h"
#include "kernels/gemm/reference.h"

namespace hyc::kernels {
namespace {

#include "fp8_values.inc"

// ------------------------------------------------------------------------------------------------------- conversions

template <typename T, size_t n>
void expectTorchs(const uint32_t (&values)[256], const uint32_t (&inputs)[n], const uint8_t (&codes)[n]) {
  for (uint32_t code = 0; code < 256; ++code) {
    T x;
    x.bits = static_cast<uint8_t>(code);
    const float got = x, want = narrow::floatOf(values[code]);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : narrow::bitsOf(got) == values[code]) << code << ": " << got;
    if (!std::isnan(want)) {
      ASSERT_EQ(T(want).bits, code);
    }
  }
  for (size_t i = 0; i < n; ++i) {
    const float input = narrow::floatOf(inputs[i]);
    const uint8_t got = T(input).bits;
    if (std::isnan(input)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(T(input))));
    } else {
      ASSERT_EQ(got, codes[i]) << input;
    }
  }
}

TEST(NarrowFloat8, E4m3IsTorchs) { expectTorchs<E4m3>(kE4m3Values, kE4m3Inputs, kE4m3Codes); }
TEST(NarrowFloat8, E5m2IsTorchs) { expectTorchs<E5m2>(kE5m2Values, kE5m2Inputs, kE5m2Codes); }

// The OCP's specification without saturation (and LLVM's APFloat); torch saturates e4m3. Programs clamp before.
TEST(NarrowFloat8, WhatIsTooLargeForE4m3IsNaN) {
  EXPECT_EQ(E4m3(464.0f).bits, 0x7e);
  for (float x : {std::nextafterf(464, 500), 480.0f, 1e9f, 3.4e38f, INFINITY}) {
    EXPECT_EQ(E4m3(x).bits, 0x7f) << x;
    EXPECT_EQ(E4m3(-x).bits, 0xff) << x;
  }
}

TEST(NarrowFloat8, EveryOneIsABf16) {
  for (uint32_t code = 0; code < 256; ++code) {
    E4m3 x;
    E5m2 y;
    x.bits = y.bits = static_cast<uint8_t>(code);
    for (float value : {static_cast<float>(x), static_cast<float>(y)}) {
      if (!std::isnan(value)) {
        ASSERT_EQ(static_cast<float>(Bf16(value)), value);
      }
    }
  }
}

TEST(NarrowFloat8, RowsAreWidened) {
  const int64_t rows = 7, cols = 301, lds = 310, ldd = 305;
  const Floats x = randomFloats(rows * lds, 1);
  std::vector<E4m3> from;
  for (float value : x) from.push_back(E4m3(value * 400));
  std::vector<Bf16> to(rows * ldd, Bf16(7.0f));
  widenToBf16(to.data(), ldd, from.data(), lds, rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c)
      ASSERT_EQ(static_cast<float>(to[r * ldd + c]), static_cast<float>(from[r * lds + c]));
    EXPECT_EQ(static_cast<float>(to[r * ldd + cols]), 7.0f);
  }
}

// ---------------------------------------------------------------------------------------------------------- products

template <typename T>
std::vector<T> randomFloat8(int64_t n, unsigned seed) {
  std::vector<T> result;
  for (float value : randomFloats(n, seed)) result.push_back(T(value));
  return result;
}
template <typename T>
std::vector<Bf16> asBf16(const std::vector<T> &x) {
  std::vector<Bf16> result;
  for (const T &value : x) result.push_back(Bf16(static_cast<float>(value)));
  return result;
}
template <typename T>
Doubles asDoubles(const std::vector<T> &x) {
  Doubles result;
  for (const T &value : x) result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

// The bits of the bf16 product of the same numbers, within rounding of the reference, and nothing written beyond the
// workspace.
template <typename A, typename B, typename C>
void expectProduct(GemmDesc d, unsigned seed) {
  const auto a = randomFloat8<A>(d.batch * d.m * d.k, seed);
  const auto b = randomFloat8<B>(d.batch * d.k * d.n, seed + 1);
  d.strideA = d.batch > 1 ? d.m * d.k : 0, d.strideB = d.batch > 1 ? d.k * d.n : 0;
  d.strideC = d.batch > 1 ? d.m * d.n : 0;
  std::vector<C> c(d.batch * d.m * d.n, C(0.25f)), want = c;
  const int64_t bytes = Float8Workspace(d, omp_get_max_threads(), sizeof(C) == 4).bytes();
  constexpr char kMark = 0x5a;
  void *memory = std::aligned_alloc(64, static_cast<size_t>((bytes + 64 + 63) / 64 * 64));
  std::memset(memory, kMark, static_cast<size_t>(bytes + 64));
  gemm(d, a.data(), b.data(), nullptr, c.data(), memory);
  for (int64_t i = bytes; i < bytes + 64; ++i) ASSERT_EQ(static_cast<char *>(memory)[i], kMark);
  std::free(memory);
  const auto aWide = asBf16(a), bWide = asBf16(b);
  gemm(d, aWide.data(), bWide.data(), nullptr, want.data());
  ASSERT_EQ(std::memcmp(c.data(), want.data(), c.size() * sizeof(C)), 0);
  Doubles reference(c.size(), 0.25);
  const Doubles aReference = asDoubles(a), bReference = asDoubles(b);
  reference::gemm(d, aReference.data(), bReference.data(), static_cast<double *>(nullptr), reference.data());
  Floats got;
  for (const C &value : c) got.push_back(static_cast<float>(value));
  EXPECT_LT(relativeError(got, reference), sizeof(C) == 4 ? 1e-5 : 0x1p-8);
}

TEST(NarrowFloat8, ProductsAreThoseOfBf16AndOfTheReference) {
  for (const bool transA : {false, true})
    for (const bool transB : {false, true})
      for (const double beta : {0.0, 1.0}) {
        GemmDesc d;
        d.m = 530, d.n = 77, d.k = 129, d.transA = transA, d.transB = transB, d.beta = beta;
        expectProduct<E4m3, E4m3, Bf16>(d, 1);
        expectProduct<E5m2, E4m3, Bf16>(d, 2);
        expectProduct<E4m3, E5m2, float>(d, 3);
        d.m = 3, d.n = 1600, d.k = 40, d.batch = 2;
        expectProduct<E4m3, E4m3, float>(d, 4);
        expectProduct<E4m3, E5m2, Bf16>(d, 5);
        expectProduct<E5m2, E4m3, float>(d, 6);
      }
}

TEST(NarrowFloat8, OperandsWithStridesAndABiasAreRead) {
  GemmDesc d;
  d.m = 20, d.n = 33, d.k = 17, d.lda = 24, d.ldb = 40, d.ldc = 50, d.hasBias = true;
  const auto a = randomFloat8<E4m3>(d.m * d.lda, 1), b = randomFloat8<E4m3>(d.k * d.ldb, 2);
  const auto aWide = asBf16(a), bWide = asBf16(b);
  std::vector<Bf16> bias = asBf16(randomFloat8<E4m3>(d.n, 3)), c(d.m * d.ldc, Bf16(9.0f)), want = c;
  gemm(d, a.data(), b.data(), bias.data(), c.data());
  gemm(d, aWide.data(), bWide.data(), bias.data(), want.data());
  EXPECT_EQ(std::memcmp(c.data(), want.data(), c.size() * sizeof(Bf16)), 0);
}

TEST(NarrowFloat8, AnEmptySumIsTheOldContentsOrZero) {
  GemmDesc d;
  d.m = 2, d.n = 3, d.k = 0;
  std::vector<float> c(6, 5.0f);
  gemm(d, static_cast<const E4m3 *>(nullptr), static_cast<const E5m2 *>(nullptr), nullptr, c.data());
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
}

// --------------------------------------------------------------------------------------------------- delayed scaling

TEST(Fp8Scale, IsTheGreatestPowerOfTwoThatFits) {
  EXPECT_EQ(fp8ScaleFor(448, 448), 1.0f);
  EXPECT_EQ(fp8ScaleFor(448, std::nextafterf(448, 1000)), 0.5f);
  EXPECT_EQ(fp8ScaleFor(448, 224), 2.0f);
  EXPECT_EQ(fp8ScaleFor(57344, 1.0f), 32768.0f);
  EXPECT_EQ(fp8ScaleFor(448, 1e-45f), 0x1p63f);
  EXPECT_EQ(fp8ScaleFor(448, std::numeric_limits<float>::max()), 0x1p-63f);
  std::vector<float> amaxes = {1e-40f, 1e-20f, 0x1.fffffep-130f, 0.3f, 1, 7, 447.9f, 1e9f, 0x1.cp8f, 0x1.c00002p8f};
  for (float value : randomFloats(1000, 1)) amaxes.push_back(std::fabs(value) + 1e-9f);
  for (float amax : amaxes)
    for (float largest : {448.0f, 57344.0f}) {
      const float scale = fp8ScaleFor(largest, amax);
      if (scale < 0x1p63f) {
        EXPECT_GT(2.0 * scale * amax, largest);
      }
      if (scale > 0x1p-63f) {
        EXPECT_LE(static_cast<double>(scale) * amax, largest);
      }
      int exponent = 0;
      EXPECT_EQ(std::frexp(scale, &exponent), 0.5f);
    }
}

TEST(Fp8Scale, FollowsTheGreatestOfTheLastSteps) {
  float scale = 1, inverse = 1, history[3] = {};
  const std::pair<float, float> steps[] = {                               // this step's amax, the next scale
                                           {0, 1},                        // nothing yet: it stays
                                           {1, 256},                      // 448 / 1
                                           {100, 4},                      // saturated for one step
                                           {1, 4},                        // remembered
                                           {1, 4},                        //
                                           {1, 256},                      // forgotten after three
                                           {INFINITY, 256}, {0.5f, 256},  // the infinity did not enter
                                           {0, 512},                      // nor does it last
                                           {0, 512},                      // of 0.5, 0, 0
                                           {0, 512},                      // of zeros alone: it stays
                                           {NAN, 512}};
  for (auto [amax, want] : steps) {
    std::vector<double> byReference(history, history + 3);
    const double next = reference::nextFp8Scale(scale, amax, 448, byReference);
    updateFp8Scale(448, 3, amax, &scale, &inverse, history);
    EXPECT_EQ(scale, want) << "after " << amax;
    EXPECT_EQ(next, want);
    EXPECT_EQ(inverse, 1 / scale);
    EXPECT_EQ(std::vector<double>(history, history + 3), byReference);
  }
}

TEST(Fp8Scale, AHistoryOfOneStepIsThatStep) {
  float scale = 1, inverse = 1, history[1] = {50};
  updateFp8Scale(57344, 1, 14, &scale, &inverse, history);
  EXPECT_EQ(scale, 4096.0f);
  EXPECT_EQ(history[0], 14.0f);
}

}  // namespace
}  // namespace hyc::kernels
