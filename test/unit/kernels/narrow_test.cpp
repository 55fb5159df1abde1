// 16-bit floats: their conversions against the definition, and every kernel of theirs against its reference, and
// against the f32 kernel of the same numbers, rounded once.
#include <limits>

#include "kernel_test.h"
#include "kernels/adamw/op.h"
#include "kernels/attention/reference.h"
#include "kernels/copy/op.h"
#include "kernels/cross_entropy/reference.h"
#include "kernels/embedding/reference.h"
#include "kernels/gemm/reference.h"
#include "kernels/gemm/workspace.h"
#include "kernels/group_norm/reference.h"
#include "kernels/isa/dispatch.h"
#include "kernels/lamb/op.h"
#include "kernels/layer_norm/reference.h"
#include "kernels/lion/op.h"
#include "kernels/permute/op.h"
#include "kernels/rms_norm/reference.h"
#include "kernels/rope/reference.h"
#include "kernels/sgd/op.h"
#include "kernels/sum_of_squares/reference.h"

namespace hyc::kernels {
namespace {

template <typename T>
std::vector<T> narrowed(const Floats &x) {
  std::vector<T> result;
  for (float value : x) result.push_back(T(value));
  return result;
}
template <typename T>
Floats widened(const std::vector<T> &x) {
  return Floats(x.begin(), x.end());
}
template <typename T>
std::vector<T> randomNarrow(int64_t n, unsigned seed) {
  return narrowed<T>(randomFloats(n, seed));
}
template <typename T>
std::vector<T> notNarrow(int64_t n) {
  return std::vector<T>(n, T(std::nanf("")));
}
template <typename T>
bool sameNarrowBits(const std::vector<T> &a, const std::vector<T> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}
// Half a unit in the last place of numbers near 1, doubled for what was rounded in f32 before.
template <typename T>
constexpr double kEpsilon = std::is_same_v<T, Bf16> ? 0x1p-8 : 0x1p-11;

template <typename T>
class Narrow : public testing::Test {};
using Types = testing::Types<Bf16, F16>;
TYPED_TEST_SUITE(Narrow, Types);

// ------------------------------------------------------------------------------------------------------- conversions

// Exponent and fraction taken apart, as IEEE 754 has it.
double valueOf(uint16_t bits, int exponentBits, int fractionBits) {
  const int exponent = bits >> fractionBits & ((1 << exponentBits) - 1), fraction = bits & ((1 << fractionBits) - 1);
  const int bias = (1 << (exponentBits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponentBits) - 1) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1 + std::ldexp(fraction, -fractionBits), exponent - bias)
                          : std::ldexp(fraction, 1 - bias - fractionBits));
}

template <typename T>
void expectConversions(int exponentBits, int fractionBits) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    T x;
    x.bits = static_cast<uint16_t>(bits);
    const double want = valueOf(x.bits, exponentBits, fractionBits);
    const float got = x;
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want)) << bits;
    if (!std::isnan(want)) {
      ASSERT_EQ(T(got).bits, bits);
    }
    // Between this number and the next one above: below, at and above the middle.
    const double next = valueOf(static_cast<uint16_t>(bits + 1), exponentBits, fractionBits);
    if (bits >= 0x8000 || !std::isfinite(want) || !std::isfinite(next)) continue;
    const float middle = static_cast<float>((want + next) / 2);
    const uint32_t even = bits & 1 ? bits + 1 : bits;
    ASSERT_EQ(T(middle).bits, even);
    ASSERT_EQ(T(-middle).bits, even | 0x8000u);
    if (middle < 1e-37f) continue;  // the next float may be this one
    ASSERT_EQ(T(std::nextafterf(middle, 0)).bits, bits);
    ASSERT_EQ(T(std::nextafterf(middle, INFINITY)).bits, bits + 1);
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(T(std::nanf("")))));
  EXPECT_EQ(static_cast<float>(T(std::numeric_limits<float>::max())), INFINITY);
}

TEST(NarrowFloat, Bf16RoundsToNearestEven) { expectConversions<Bf16>(8, 7); }
TEST(NarrowFloat, F16RoundsToNearestEvenAndKeepsSubnormals) {
  expectConversions<F16>(5, 10);
  EXPECT_EQ(static_cast<float>(F16(65519.0f)), 65504.0f);
  EXPECT_EQ(static_cast<float>(F16(65520.0f)), INFINITY);
  EXPECT_EQ(static_cast<float>(F16(0x1p-25f)), 0.0f);
  EXPECT_EQ(static_cast<float>(F16(0x1.8p-25f)), 0x1p-24f);
}

// Loops and vectors round as the scalar does.
TYPED_TEST(Narrow, RowsAreWidenedAndRounded) {
  const int64_t rows = 5, cols = 777;
  const Floats x = randomFloats(rows * 800, 1);
  std::vector<TypeParam> narrow(rows * 790, TypeParam(7.0f));
  roundRows(narrow.data(), 790, x.data(), 800, rows, cols);
  Floats back(rows * cols);
  widenRows(back.data(), cols, narrow.data(), 790, rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      ASSERT_EQ(narrow[r * 790 + c].bits, TypeParam(x[r * 800 + c]).bits);
      ASSERT_EQ(back[r * cols + c], static_cast<float>(narrow[r * 790 + c]));
    }
    EXPECT_EQ(static_cast<float>(narrow[r * 790 + cols]), 7.0f);
  }
}

TYPED_TEST(Narrow, ElementsAreRounded) {
  for (const int64_t n : {0, 1, 31, 1003, 70001}) {
    const Floats x = randomFloats(n, 3);
    std::vector<TypeParam> y(static_cast<size_t>(n) + 1, TypeParam(7.0f));
    roundElements(y.data(), x.data(), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i].bits, TypeParam(x[i]).bits);
    EXPECT_EQ(static_cast<float>(y[n]), 7.0f);
  }
}

// --------------------------------------------------------------------------------------------------------- movements

TYPED_TEST(Narrow, MovesKeepTheBits) {
  const auto x = randomNarrow<TypeParam>(70001, 1);
  auto y = notNarrow<TypeParam>(x.size());
  copy(y.data(), x.data(), static_cast<int64_t>(x.size()));
  EXPECT_TRUE(sameNarrowBits(x, y));
  const int64_t shape[] = {3, 130, 70};
  const int perm[] = {2, 0, 1};
  stridedCopy(permuteDesc(3, shape, perm, 2), x.data(), y.data());
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 130; ++j)
      for (int64_t k = 0; k < 70; ++k) ASSERT_EQ(y[(k * 3 + i) * 130 + j].bits, x[(i * 130 + j) * 70 + k].bits);
}

TYPED_TEST(Narrow, AccumulateRoundsEachSum) {
  auto x = randomNarrow<TypeParam>(1003, 1);
  const auto y = randomNarrow<TypeParam>(1003, 2);
  const auto before = x;
  accumulate(x.data(), y.data(), 1003);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i].bits, TypeParam(before[i] + y[i]).bits);
}

// ------------------------------------------------------------------------------------------------------------- norms

TYPED_TEST(Narrow, LayerNormEqualsTheF32KernelRoundedOnceAndTheReference) {
  const LayerNormDesc d = {37, 133, 1e-5};
  const auto x = randomNarrow<TypeParam>(d.rows * d.cols, 1), dy = randomNarrow<TypeParam>(d.rows * d.cols, 2);
  const Floats scale = randomFloats(d.cols, 3), bias = randomFloats(d.cols, 4), wide = widened(x), wideDy = widened(dy);
  auto y = notNarrow<TypeParam>(x.size()), dx = y;
  Floats mean(d.rows), rstd(d.rows), dscale(d.cols), dbias(d.cols), workspace(layerNormBackwardWorkspaceBytes(d) / 4);
  Floats wantY(x.size()), wantMean(d.rows), wantRstd(d.rows), wantDx(x.size()), wantDscale(d.cols), wantDbias(d.cols);
  layerNormForward(d, x.data(), scale.data(), bias.data(), y.data(), mean.data(), rstd.data());
  layerNormForward(d, wide.data(), scale.data(), bias.data(), wantY.data(), wantMean.data(), wantRstd.data());
  EXPECT_TRUE(sameNarrowBits(y, narrowed<TypeParam>(wantY)));
  EXPECT_TRUE(sameBits(mean, wantMean) && sameBits(rstd, wantRstd));
  layerNormBackward(d, x.data(), scale.data(), mean.data(), rstd.data(), dy.data(), dx.data(), dscale.data(),
                    dbias.data(), WriteMode::kOverwrite, workspace.data());
  layerNormBackward(d, wide.data(), scale.data(), mean.data(), rstd.data(), wideDy.data(), wantDx.data(),
                    wantDscale.data(), wantDbias.data(), WriteMode::kOverwrite, workspace.data());
  EXPECT_TRUE(sameNarrowBits(dx, narrowed<TypeParam>(wantDx)));
  EXPECT_TRUE(sameBits(dscale, wantDscale) && sameBits(dbias, wantDbias));
  Doubles referenceY(x.size()), referenceMean(d.rows), referenceRstd(d.rows);
  reference::layerNormForward(d, widen(wide).data(), widen(scale).data(), widen(bias).data(), referenceY.data(),
                              referenceMean.data(), referenceRstd.data());
  EXPECT_LT(relativeError(widened(y), referenceY), kEpsilon<TypeParam>);
}

TYPED_TEST(Narrow, RmsNormEqualsTheF32KernelRoundedOnceAndTheReference) {
  const RmsNormDesc d = {37, 133, 1e-5};
  const auto x = randomNarrow<TypeParam>(d.rows * d.cols, 1), dy = randomNarrow<TypeParam>(d.rows * d.cols, 2);
  const Floats scale = randomFloats(d.cols, 3), wide = widened(x), wideDy = widened(dy);
  auto y = notNarrow<TypeParam>(x.size()), dx = y;
  Floats rstd(d.rows), dscale(d.cols), workspace(rmsNormBackwardWorkspaceBytes(d) / 4);
  Floats wantY(x.size()), wantRstd(d.rows), wantDx(x.size()), wantDscale(d.cols);
  rmsNormForward(d, x.data(), scale.data(), y.data(), rstd.data());
  rmsNormForward(d, wide.data(), scale.data(), wantY.data(), wantRstd.data());
  EXPECT_TRUE(sameNarrowBits(y, narrowed<TypeParam>(wantY)));
  EXPECT_TRUE(sameBits(rstd, wantRstd));
  rmsNormBackward(d, x.data(), scale.data(), rstd.data(), dy.data(), dx.data(), dscale.data(), WriteMode::kOverwrite,
                  workspace.data());
  rmsNormBackward(d, wide.data(), scale.data(), rstd.data(), wideDy.data(), wantDx.data(), wantDscale.data(),
                  WriteMode::kOverwrite, workspace.data());
  EXPECT_TRUE(sameNarrowBits(dx, narrowed<TypeParam>(wantDx)));
  EXPECT_TRUE(sameBits(dscale, wantDscale));
  Doubles referenceY(x.size()), referenceRstd(d.rows);
  reference::rmsNormForward(d, widen(wide).data(), widen(scale).data(), referenceY.data(), referenceRstd.data());
  EXPECT_LT(relativeError(widened(y), referenceY), kEpsilon<TypeParam>);
}

TYPED_TEST(Narrow, GroupNormEqualsTheF32KernelRoundedOnceAndTheReference) {
  const GroupNormDesc d = {3, 4, 2, 75};
  const int64_t size = 3 * 4 * 2 * 75;
  const auto x = randomNarrow<TypeParam>(size, 1), dy = randomNarrow<TypeParam>(size, 2);
  const Floats scale = randomFloats(8, 3), bias = randomFloats(8, 4), wide = widened(x), wideDy = widened(dy);
  auto y = notNarrow<TypeParam>(x.size()), dx = y;
  Floats mean(12), rstd(12), dscale(8), dbias(8), workspace(groupNormBackwardWorkspaceBytes(d) / 4);
  Floats wantY(x.size()), wantMean(12), wantRstd(12), wantDx(x.size()), wantDscale(8), wantDbias(8);
  groupNormForward(d, x.data(), scale.data(), bias.data(), y.data(), mean.data(), rstd.data());
  groupNormForward(d, wide.data(), scale.data(), bias.data(), wantY.data(), wantMean.data(), wantRstd.data());
  EXPECT_TRUE(sameNarrowBits(y, narrowed<TypeParam>(wantY)));
  EXPECT_TRUE(sameBits(rstd, wantRstd));
  groupNormBackward(d, x.data(), scale.data(), mean.data(), rstd.data(), dy.data(), dx.data(), dscale.data(),
                    dbias.data(), WriteMode::kOverwrite, workspace.data());
  groupNormBackward(d, wide.data(), scale.data(), mean.data(), rstd.data(), wideDy.data(), wantDx.data(),
                    wantDscale.data(), wantDbias.data(), WriteMode::kOverwrite, workspace.data());
  EXPECT_TRUE(sameNarrowBits(dx, narrowed<TypeParam>(wantDx)));
  EXPECT_TRUE(sameBits(dscale, wantDscale));
  Doubles referenceY(x.size()), referenceMean(12), referenceRstd(12);
  reference::groupNormForward(d, widen(wide).data(), widen(scale).data(), widen(bias).data(), referenceY.data(),
                              referenceMean.data(), referenceRstd.data());
  EXPECT_LT(relativeError(widened(y), referenceY), kEpsilon<TypeParam>);
}

TYPED_TEST(Narrow, RopeEqualsTheF32KernelRoundedOnce) {
  const RopeDesc d = {2, 7, 3, 20, 9};
  const auto x = randomNarrow<TypeParam>(2 * 7 * 3 * 20, 1);
  const Floats cos = randomFloats(7 * 9, 2), sin = randomFloats(7 * 9, 3), wide = widened(x);
  auto y = notNarrow<TypeParam>(x.size());
  Floats want(x.size());
  rope(d, x.data(), cos.data(), sin.data(), y.data());
  rope(d, wide.data(), cos.data(), sin.data(), want.data());
  EXPECT_TRUE(sameNarrowBits(y, narrowed<TypeParam>(want)));
}

// --------------------------------------------------------------------------------------------------------- attention

TYPED_TEST(Narrow, AttentionEqualsTheF32KernelRoundedOnceAndTheReference) {
  for (int64_t length : {7, 130}) {
    AttentionDesc d;
    d.batch = 2, d.queryLength = d.keyLength = length, d.heads = 4, d.kvHeads = 2, d.headDim = 20;
    d.causal = true;
    d.scale = 0.2;
    d.q = d.o = d.dq = d.dO = denseHeadStrides(length, 4, 20);
    d.k = d.v = d.dk = d.dv = denseHeadStrides(length, 2, 20);
    const int64_t n = d.batch * length * 80, nk = n / 2, rows = d.batch * 4 * length;
    const auto q = randomNarrow<TypeParam>(n, 1), k = randomNarrow<TypeParam>(nk, 2),
               v = randomNarrow<TypeParam>(nk, 3), dO = randomNarrow<TypeParam>(n, 4);
    auto o = notNarrow<TypeParam>(n), dq = o, dk = notNarrow<TypeParam>(nk), dv = dk;
    Floats lse(rows), wantO(n), wantLse(rows), wantDq(n), wantDk(nk), wantDv(nk);
    attentionForward(d, q.data(), k.data(), v.data(), o.data(), lse.data());
    attentionForward(d, widened(q).data(), widened(k).data(), widened(v).data(), wantO.data(), wantLse.data());
    EXPECT_TRUE(sameNarrowBits(o, narrowed<TypeParam>(wantO)));
    EXPECT_TRUE(sameBits(lse, wantLse));
    attentionBackward(d, q.data(), k.data(), v.data(), o.data(), lse.data(), dO.data(), dq.data(), dk.data(),
                      dv.data());
    attentionBackward(d, widened(q).data(), widened(k).data(), widened(v).data(), widened(o).data(), lse.data(),
                      widened(dO).data(), wantDq.data(), wantDk.data(), wantDv.data());
    EXPECT_TRUE(sameNarrowBits(dq, narrowed<TypeParam>(wantDq)));
    EXPECT_TRUE(sameNarrowBits(dk, narrowed<TypeParam>(wantDk)));
    EXPECT_TRUE(sameNarrowBits(dv, narrowed<TypeParam>(wantDv)));
    Doubles referenceO(n), referenceLse(rows);
    reference::attentionForward(d, widen(widened(q)).data(), widen(widened(k)).data(), widen(widened(v)).data(),
                                referenceO.data(), referenceLse.data());
    EXPECT_LT(relativeError(widened(o), referenceO), kEpsilon<TypeParam>);
  }
}

// ------------------------------------------------------------------------------------------------ embedding, and loss

TYPED_TEST(Narrow, EmbeddingMovesRowsAndAddsThemInF32) {
  const EmbeddingDesc d = {29, 11, 45, 3};
  std::vector<int64_t> ids;
  for (int64_t t = 0; t < d.tokens; ++t) ids.push_back(t * 7 % 16);
  const auto table = randomNarrow<TypeParam>(d.rows * d.width, 1),
             dout = randomNarrow<TypeParam>(d.tokens * d.width, 2);
  auto out = notNarrow<TypeParam>(d.tokens * d.width);
  embedding(d, ids.data(), table.data(), out.data());
  Floats want(out.size()), dtable(table.size()), wantTable(table.size());
  reference::embedding(d, ids.data(), widened(table).data(), want.data());
  EXPECT_TRUE(sameBits(widened(out), want));
  embeddingGrad(d, ids.data(), dout.data(), dtable.data(), WriteMode::kOverwrite);
  reference::embeddingGrad(d, ids.data(), widened(dout).data(), wantTable.data(), WriteMode::kOverwrite);
  EXPECT_TRUE(sameBits(dtable, wantTable));
}

TYPED_TEST(Narrow, CrossEntropyEqualsTheF32KernelRoundedOnceAndTheReference) {
  CrossEntropyDesc d;
  d.tokens = 17, d.localVocab = 301, d.ld = 310;
  std::vector<int64_t> labels;
  for (int64_t t = 0; t < d.tokens; ++t) labels.push_back(t % 5 == 4 ? d.ignoreIndex : t * 17);
  const auto logits = randomNarrow<TypeParam>(d.tokens * d.ld, 1);
  const Floats wide = widened(logits);
  Floats lse(d.tokens), picked(d.tokens), wantLse(d.tokens), wantPicked(d.tokens), max(d.tokens), sum(d.tokens);
  float loss = 0, wantLoss = 0;
  int64_t count = 0, wantCount = 0;
  crossEntropyForward(d, logits.data(), labels.data(), lse.data(), picked.data(), &loss, &count);
  crossEntropyForward(d, wide.data(), labels.data(), wantLse.data(), wantPicked.data(), &wantLoss, &wantCount);
  EXPECT_TRUE(sameBits(lse, wantLse));
  EXPECT_EQ(loss, wantLoss);
  EXPECT_EQ(count, wantCount);
  crossEntropyRowMax(d, logits.data(), max.data());
  crossEntropySumExp(d, logits.data(), labels.data(), max.data(), sum.data(), picked.data());
  crossEntropyCombine(d, labels.data(), max.data(), sum.data(), picked.data(), lse.data(), &loss, &count);
  EXPECT_TRUE(sameBits(lse, wantLse)) << "in pieces";
  auto dlogits = notNarrow<TypeParam>(logits.size());
  Floats wantGrad(logits.size());
  crossEntropyGrad(d, logits.data(), labels.data(), lse.data(), 0.25f, dlogits.data());
  crossEntropyGrad(d, wide.data(), labels.data(), lse.data(), 0.25f, wantGrad.data());
  EXPECT_TRUE(sameNarrowBits(dlogits, narrowed<TypeParam>(wantGrad)));
  Doubles reference(logits.size());
  reference::crossEntropyGrad(d, widen(wide).data(), labels.data(), widen(lse).data(), 0.25, reference.data());
  EXPECT_LT(relativeError(widened(dlogits), reference), kEpsilon<TypeParam>);
}

// -------------------------------------------------------------------------------------------------- sums and updates

TYPED_TEST(Narrow, SumOfSquaresIsThatOfTheWidenedNumbers) {
  const auto x = randomNarrow<TypeParam>(5003, 1);
  std::vector<int64_t> sum(kExactSumLimbs, -1), want(kExactSumLimbs);
  sumOfSquares(x.data(), 5003, sum.data(), WriteMode::kOverwrite);
  reference::addSumOfSquares(widened(x).data(), 5003, want.data());
  EXPECT_EQ(sum, want);
}

TYPED_TEST(Narrow, UpdatesReadNarrowGradients) {
  const auto grad = randomNarrow<TypeParam>(1003, 1);
  const Floats wide = widened(grad);
  Floats p = randomFloats(1003, 2), m = randomFloats(1003, 3), v(1003, 0.5f), wantP = p, wantM = m, wantV = v;
  AdamWParams adam;
  adam.weightDecay = 0.1;
  for (DecayKind decay : {DecayKind::kDecoupled, DecayKind::kAddedToGradient}) {
    adam.decay = decay;
    adamw(adam, 1003, p.data(), grad.data(), m.data(), v.data());
    adamw(adam, 1003, wantP.data(), wide.data(), wantM.data(), wantV.data());
    EXPECT_TRUE(sameBits(p, wantP) && sameBits(m, wantM) && sameBits(v, wantV));
  }
  SgdParams descent;
  descent.momentum = 0.9;
  descent.step = 2;
  sgd(descent, 1003, p.data(), grad.data(), m.data());
  sgd(descent, 1003, wantP.data(), wide.data(), wantM.data());
  EXPECT_TRUE(sameBits(p, wantP) && sameBits(m, wantM));
  LionParams signs;
  signs.weightDecay = 0.1;
  lion(signs, 1003, p.data(), grad.data(), m.data());
  lion(signs, 1003, wantP.data(), wide.data(), wantM.data());
  EXPECT_TRUE(sameBits(p, wantP) && sameBits(m, wantM));
}

// The direction takes the gradient's place, so it is rounded as the gradient is.
TYPED_TEST(Narrow, LambReadsNarrowGradientsAndRoundsItsDirectionOnce) {
  auto grad = randomNarrow<TypeParam>(1003, 1);
  Floats wide = widened(grad);
  Floats p = randomFloats(1003, 2), m = randomFloats(1003, 3), v(1003, 0.5f), wantP = p, wantM = m, wantV = v;
  LambParams params;
  params.weightDecay = 0.1;
  lambDirection(params, 1003, p.data(), grad.data(), m.data(), v.data());
  lambDirection(params, 1003, wantP.data(), wide.data(), wantM.data(), wantV.data());
  EXPECT_TRUE(sameBits(m, wantM) && sameBits(v, wantV));
  for (float &value : wide) value = roundedTo<TypeParam>(value);
  EXPECT_TRUE(sameBits(widened(grad), wide));
  lambUpdate(0.3, 1003, p.data(), grad.data());
  lambUpdate(0.3, 1003, wantP.data(), wide.data());
  EXPECT_TRUE(sameBits(p, wantP));
}

// ---------------------------------------------------------------------------------------------------------- products

struct Shape {
  int64_t m, n, k;
};

GemmDesc descOf(const Shape &shape, bool transA = false, bool transB = false) {
  GemmDesc d;
  d.m = shape.m, d.n = shape.n, d.k = shape.k;
  d.transA = transA, d.transB = transB;
  return d;
}

// Both results of one product against the reference in f64.
template <typename T>
void expectProduct(const GemmDesc &d) {
  SCOPED_TRACE(testing::Message() << d.m << " x " << d.n << " x " << d.k << (d.transA ? " A^T" : "")
                                  << (d.transB ? " B^T" : "") << " beta " << d.beta);
  const int64_t aSize = (d.transA ? d.k : d.m) * d.rowStrideA() + d.strideA * (d.batch - 1);
  const int64_t bSize = (d.transB ? d.n : d.k) * d.rowStrideB() + d.strideB * (d.batch - 1);
  const int64_t cSize = d.m * d.rowStrideC() + d.strideC * (d.batch - 1);
  const auto a = randomNarrow<T>(aSize, 1), b = randomNarrow<T>(bSize, 2), bias = randomNarrow<T>(d.n, 3);
  auto c = randomNarrow<T>(cSize, 4);
  Floats wide = widened(c);
  Doubles want = widen(wide);
  reference::gemm(d, widen(widened(a)).data(), widen(widened(b)).data(), widen(widened(bias)).data(), want.data());
  gemm(d, a.data(), b.data(), bias.data(), c.data());
  gemm(d, a.data(), b.data(), bias.data(), wide.data());
  EXPECT_LT(relativeError(wide, want), 3e-6);
  EXPECT_LT(relativeError(widened(c), want), kEpsilon<T>);
  if (d.k <= kGemmNarrowRun && d.beta == 0) {
    EXPECT_TRUE(sameNarrowBits(c, narrowed<T>(wide))) << "rounded once";
  }
}

TYPED_TEST(Narrow, ProductsOfOddShapesAndTransposesEqualReference) {
  for (const Shape &shape : {Shape{1, 1, 1}, {5, 17, 7}, {33, 31, 64}, {37, 130, 97}, {171, 65, 517}, {16, 32, 32}})
    for (bool transA : {false, true})
      for (bool transB : {false, true}) expectProduct<TypeParam>(descOf(shape, transA, transB));
}

TYPED_TEST(Narrow, ProductsOfManyBlocksAndRunsEqualReference) {
  expectProduct<TypeParam>(descOf({9, 1536 + 37, 20}));
  expectProduct<TypeParam>(descOf({11, 23, kGemmNarrowRun + 77}));
  expectProduct<TypeParam>(descOf({530, 40, 1100}, true));
}

TYPED_TEST(Narrow, ProductsWithStridesBatchAlphaBetaAndBiasEqualReference) {
  GemmDesc d = descOf({13, 41, 300});
  d.lda = 301, d.ldb = 45, d.ldc = 50;
  d.batch = 3;
  d.strideA = 13 * 301 + 5, d.strideB = 0, d.strideC = 13 * 50 + 1;
  d.alpha = -0.75;
  d.hasBias = true;
  for (double beta : {0.0, 1.0}) {
    d.beta = beta;
    expectProduct<TypeParam>(d);
  }
  GemmDesc empty = descOf({2, 3, 0});
  empty.hasBias = true;
  expectProduct<TypeParam>(empty);
}

TYPED_TEST(Narrow, ProductsNeverReadOldContentsNorWriteBetweenRows) {
  GemmDesc d = descOf({19, 23, 300});
  d.ldc = 40;
  const auto a = randomNarrow<TypeParam>(19 * 300, 1), b = randomNarrow<TypeParam>(300 * 23, 2);
  auto clean = std::vector<TypeParam>(19 * 40, TypeParam(3.0f)), dirty = notNarrow<TypeParam>(19 * 40);
  gemm(d, a.data(), b.data(), nullptr, clean.data());
  gemm(d, a.data(), b.data(), nullptr, dirty.data());
  for (int64_t i = 0; i < 19; ++i)
    for (int64_t j = 0; j < 40; ++j) {
      if (j < 23)
        ASSERT_EQ(clean[i * 40 + j].bits, dirty[i * 40 + j].bits);
      else
        ASSERT_EQ(static_cast<float>(clean[i * 40 + j]), 3.0f);
    }
}

TYPED_TEST(Narrow, BitsOfProductsDoNotDependOnThreads) {
  for (bool transA : {false, true}) {
    const GemmDesc d = descOf({301, 203, 700}, transA);
    const auto a = randomNarrow<TypeParam>(301 * 700, 1), b = randomNarrow<TypeParam>(700 * 203, 2);
    expectBitsIndependentOfThreads([&] {
      Floats c(301 * 203);
      gemm(d, a.data(), b.data(), nullptr, c.data());
      return c;
    });
  }
}

// Planned for four threads: any team of at most so many finds room, and gives the bits of a product that brings its
// own.
template <typename T, typename C>
void expectPlannedWorkspaceIsEnough(const GemmDesc &d) {
  SCOPED_TRACE(testing::Message() << d.m << " x " << d.n << " x " << d.k);
  constexpr int kPlanned = 4;
  const auto a = randomNarrow<T>(d.m * d.k, 1), b = randomNarrow<T>(d.k * d.n, 2), bias = randomNarrow<T>(d.n, 3);
  std::vector<C> want(d.m * d.n);
  gemm(d, a.data(), b.data(), bias.data(), want.data());
  const size_t bytes = gemmNarrowWorkspaceBytes<T, C>(d, kPlanned);
  const int before = omp_get_max_threads();
  for (int threads = 1; threads <= kPlanned; ++threads) {
    omp_set_num_threads(threads);
    std::vector<char> room(bytes + 128, 'x');
    char *workspace = room.data() + (64 - reinterpret_cast<uintptr_t>(room.data()) % 64);
    std::vector<C> c(want.size());
    gemm(d, a.data(), b.data(), bias.data(), c.data(), workspace);
    EXPECT_EQ(std::memcmp(c.data(), want.data(), c.size() * sizeof(C)), 0) << threads;
    for (char *end = workspace + bytes; end < room.data() + room.size(); ++end) ASSERT_EQ(*end, 'x') << threads;
  }
  omp_set_num_threads(before);
}

TYPED_TEST(Narrow, CallersWorkspaceOfTheStatedSizeIsEnough) {
  for (const Shape &shape : {Shape{5, 17, 7}, {256, 96, 300}, {301, 203, 700}, {700, 33, 1100}, {66, 1570, 4200}}) {
    GemmDesc d = descOf(shape);
    d.hasBias = true;
    expectPlannedWorkspaceIsEnough<TypeParam, TypeParam>(d);
    expectPlannedWorkspaceIsEnough<TypeParam, float>(d);
  }
}

TYPED_TEST(Narrow, AttentionsGradientFindsRoomInACallersWorkspace) {
  AttentionDesc d;
  d.batch = 3, d.queryLength = d.keyLength = 70, d.heads = d.kvHeads = 2, d.headDim = 20;
  d.causal = true, d.scale = 0.2;
  d.q = d.k = d.v = d.o = d.dq = d.dk = d.dv = d.dO = denseHeadStrides(70, 2, 20);
  const int64_t n = d.batch * 70 * 40;
  const auto q = randomNarrow<TypeParam>(n, 1), k = randomNarrow<TypeParam>(n, 2), v = randomNarrow<TypeParam>(n, 3),
             dO = randomNarrow<TypeParam>(n, 4);
  auto o = notNarrow<TypeParam>(n), dq = o, dk = o, dv = o, wantDq = o, wantDk = o, wantDv = o;
  Floats lse(d.batch * 2 * 70);
  attentionForward(d, q.data(), k.data(), v.data(), o.data(), lse.data());
  attentionBackward(d, q.data(), k.data(), v.data(), o.data(), lse.data(), dO.data(), wantDq.data(), wantDk.data(),
                    wantDv.data());
  const size_t floats = attentionBackwardWorkspaceBytes<TypeParam>(d, omp_get_max_threads()) / sizeof(float);
  Floats workspace(floats + 16, 7.0f);
  attentionBackward(d, q.data(), k.data(), v.data(), o.data(), lse.data(), dO.data(), dq.data(), dk.data(), dv.data(),
                    workspace.data());
  EXPECT_TRUE(sameNarrowBits(dq, wantDq) && sameNarrowBits(dk, wantDk) && sameNarrowBits(dv, wantDv));
  for (size_t i = floats; i < workspace.size(); ++i) EXPECT_EQ(workspace[i], 7.0f);
}

// What makes a sharded model equal the whole one: rows, columns, both, and another way to store the same numbers.
TYPED_TEST(Narrow, AShardOfAProductHasTheBitsOfTheWhole) {
  if (currentIsa() == Isa::kGeneric) GTEST_SKIP() << "the vendor library computes here, which does not promise this";
  const int64_t m = 96, n = 80, k = 520;
  const auto a = randomNarrow<TypeParam>(m * k, 1), b = randomNarrow<TypeParam>(k * n, 2);
  Floats whole(m * n);
  gemm(descOf({m, n, k}), a.data(), b.data(), nullptr, whole.data());
  for (const auto &[rows, columns] : {std::pair<int64_t, int64_t>{17, 80}, {96, 23}, {1, 1}, {33, 40}}) {
    GemmDesc d = descOf({rows, columns, k});
    d.ldb = n;
    Floats shard(rows * columns);
    gemm(d, a.data() + 5 % (m - rows + 1) * k, b.data() + 7 % (n - columns + 1), nullptr, shard.data());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        ASSERT_EQ(shard[i * columns + j], whole[(i + 5 % (m - rows + 1)) * n + j + 7 % (n - columns + 1)]);
  }
  std::vector<TypeParam> aT(m * k), bT(k * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) aT[p * m + i] = a[i * k + p];
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = 0; j < n; ++j) bT[j * k + p] = b[p * n + j];
  Floats transposed(m * n);
  gemm(descOf({m, n, k}, true, true), aT.data(), bT.data(), nullptr, transposed.data());
  EXPECT_TRUE(sameBits(whole, transposed));
}

}  // namespace
}  // namespace hyc::kernels
