// Products of odd shapes, strides and batches against the reference.
#include "kernel_test.h"
#include "kernels/gemm/reference.h"
#include "kernels/isa/dispatch.h"

namespace hyc::kernels {
namespace {

GemmDesc shape(int64_t m, int64_t n, int64_t k) {
  GemmDesc desc;
  desc.m = m;
  desc.n = n;
  desc.k = k;
  return desc;
}

struct Operands {
  Floats a, b, bias, c;

  explicit Operands(const GemmDesc &d)
      : a(randomFloats(extent(d.transA ? d.k : d.m, d.rowStrideA(), d.strideA, d.batch), 1)),
        b(randomFloats(extent(d.transB ? d.n : d.k, d.rowStrideB(), d.strideB, d.batch), 2)),
        bias(randomFloats(d.n, 3)),
        c(randomFloats(extent(d.m, d.rowStrideC(), d.strideC, d.batch), 4)) {}

  static int64_t extent(int64_t rows, int64_t ld, int64_t stride, int64_t batch) {
    return rows * ld + stride * (batch - 1);
  }
};

void expectEqualsReference(const GemmDesc &d) {
  Operands x(d);
  Doubles want = widen(x.c);
  reference::gemm(d, widen(x.a).data(), widen(x.b).data(), widen(x.bias).data(), want.data());
  gemm(d, x.a.data(), x.b.data(), x.bias.data(), x.c.data());
  EXPECT_LT(relativeError(x.c, want), 3e-6)
      << d.m << " x " << d.n << " x " << d.k << (d.transA ? " A^T" : "") << (d.transB ? " B^T" : "");
}

TEST(Gemm, OddShapesAndTransposesEqualReference) {
  for (int64_t m : {1, 5, 37, 171})
    for (int64_t n : {1, 17, 33, 130})
      for (int64_t k : {1, 7, 64, 517})
        for (bool transA : {false, true})
          for (bool transB : {false, true}) {
            GemmDesc d = shape(m, n, k);
            d.transA = transA;
            d.transB = transB;
            expectEqualsReference(d);
          }
}

TEST(Gemm, LeadingDimensionsBatchAlphaBetaAndBiasEqualReference) {
  GemmDesc d = shape(13, 21, 300);
  d.lda = 301;
  d.ldb = 25;
  d.ldc = 30;
  d.batch = 3;
  d.strideA = 13 * 301 + 5;
  d.strideB = 0;
  d.strideC = 13 * 30 + 1;
  d.alpha = -0.75;
  d.hasBias = true;
  for (double beta : {0.0, 1.0}) {
    d.beta = beta;
    expectEqualsReference(d);
  }
}

TEST(Gemm, WiderThanOneColumnBlockEqualsReference) { expectEqualsReference(shape(9, kGemmColumnBlock + 37, 20)); }

TEST(Gemm, BetaZeroNeverReadsOldContents) {
  const GemmDesc d = shape(19, 23, 300);
  Operands x(d);
  Floats clean(x.c.size(), 0.0f), dirty = notANumber(x.c.size());
  gemm(d, x.a.data(), x.b.data(), nullptr, clean.data());
  gemm(d, x.a.data(), x.b.data(), nullptr, dirty.data());
  EXPECT_TRUE(sameBits(clean, dirty));
}

TEST(Gemm, ColumnsBetweenRowsOfCAreLeftAlone) {
  GemmDesc d = shape(7, 5, 9);
  d.ldc = 8;
  Operands x(d);
  const Floats before = x.c;
  gemm(d, x.a.data(), x.b.data(), nullptr, x.c.data());
  for (int64_t i = 0; i < d.m; ++i)
    for (int64_t j = d.n; j < d.ldc; ++j) EXPECT_EQ(x.c[i * d.ldc + j], before[i * d.ldc + j]);
}

TEST(Gemm, EmptyInnerDimensionGivesBiasPlusOldC) {
  GemmDesc d = shape(2, 3, 0);
  d.hasBias = true;
  d.beta = 1;
  const Floats bias = {1, 2, 3};
  Floats c = {10, 20, 30, 40, 50, 60};
  gemm(d, nullptr, nullptr, bias.data(), c.data());
  EXPECT_EQ(c, (Floats{11, 22, 33, 41, 52, 63}));
}

TEST(Gemm, BitsDoNotDependOnThreads) {
  const GemmDesc d = shape(301, 203, 700);
  expectBitsIndependentOfThreads([&] {
    Operands x(d);
    gemm(d, x.a.data(), x.b.data(), nullptr, x.c.data());
    return x.c;
  });
}

TEST(Gemm, PackedWeightGivesTheSameBits) {
  for (bool transB : {false, true}) {
    GemmDesc d = shape(45, 3100, 270);
    d.transB = transB;
    d.hasBias = true;
    Operands x(d);
    Floats packed(packedWeightBytes(d) / sizeof(float)), c = notANumber(x.c.size());
    gemm(d, x.a.data(), x.b.data(), x.bias.data(), x.c.data());
    packWeight(d, x.b.data(), packed.data());
    gemmPacked(d, x.a.data(), packed.data(), x.bias.data(), c.data());
    EXPECT_TRUE(sameBits(x.c, c));
  }
}

// Products of few rows read B where it lies, and others a packed copy.
TEST(Gemm, FewRowsHaveTheBitsOfPackedProducts) {
  for (int64_t m : {1, 2, 3, 4, 5, 7, 14, 16, 17})
    for (int64_t n : {1, 7, 64, 203})
      for (int transposed = 0; transposed < 4; ++transposed) {
        GemmDesc d = shape(m, n, 701);
        d.transA = transposed & 1;
        d.transB = transposed & 2;
        d.alpha = 0.3;
        d.beta = n == 7;
        d.hasBias = n != 64;
        Operands x(d);
        Floats packed(packedWeightBytes(d) / sizeof(float)), c = x.c;
        gemm(d, x.a.data(), x.b.data(), x.bias.data(), x.c.data());
        packWeight(d, x.b.data(), packed.data());
        gemmPacked(d, x.a.data(), packed.data(), x.bias.data(), c.data());
        EXPECT_TRUE(sameBits(x.c, c)) << m << " x " << n << ", transposed " << transposed;
      }
}

TEST(Gemm, CallersWorkspaceOfTheStatedSizeIsEnough) {
  for (int64_t m : {3, 50}) {
    const GemmDesc d = shape(m, 70, 600);
    Operands x(d);
    const size_t bytes = gemmWorkspaceBytes(d, omp_get_max_threads());
    std::vector<char> workspace(bytes + 64, 'x');
    Floats c = x.c;
    gemm(d, x.a.data(), x.b.data(), nullptr, x.c.data());
    gemm(d, x.a.data(), x.b.data(), nullptr, c.data(), workspace.data());
    EXPECT_TRUE(sameBits(x.c, c));
    for (size_t i = bytes; i < workspace.size(); ++i) EXPECT_EQ(workspace[i], 'x');
  }
}

// The property that makes a sharded model equal the whole one, bit by bit, in its products.
TEST(Gemm, AShardHasTheBitsOfTheWhole) {
  if (currentIsa() == Isa::kGeneric) GTEST_SKIP() << "the vendor library computes here, which does not promise this";
  const GemmDesc whole = shape(96, 80, 520);
  Operands x(whole);
  gemm(whole, x.a.data(), x.b.data(), nullptr, x.c.data());
  GemmDesc shard = shape(11, 27, 520);
  shard.lda = whole.k;
  shard.ldb = shard.ldc = whole.n;
  Floats c = notANumber(x.c.size());
  const int64_t row = 50, column = 30;
  gemm(shard, x.a.data() + row * whole.k, x.b.data() + column, nullptr, c.data() + row * whole.n + column);
  for (int64_t i = row; i < row + shard.m; ++i)
    for (int64_t j = column; j < column + shard.n; ++j)
      EXPECT_EQ(c[i * whole.n + j], x.c[i * whole.n + j]) << i << ", " << j;
}

}  // namespace
}  // namespace hyc::kernels
