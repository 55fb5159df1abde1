// Attention on CPUs against the reference, over lengths, head sizes and threads.
#include "kernel_test.h"
#include "kernels/attention/reference.h"

namespace hyc::kernels {
namespace {

#include "attention_values.inc"

AttentionDesc denseDesc(int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t kvHeads, int64_t headDim) {
  AttentionDesc d;
  d.batch = batch;
  d.queryLength = queries;
  d.keyLength = keys;
  d.heads = heads;
  d.kvHeads = kvHeads;
  d.headDim = headDim;
  d.causal = true;
  d.scale = 1 / std::sqrt(static_cast<double>(headDim));
  d.q = d.o = d.dq = d.dO = denseHeadStrides(queries, heads, headDim);
  d.k = d.v = d.dk = d.dv = denseHeadStrides(keys, kvHeads, headDim);
  return d;
}

template <typename T>
struct Tensors {
  std::vector<T> q, k, v, dO, o, lse, dq, dk, dv;

  explicit Tensors(const AttentionDesc &d)
      : q(fill(d.batch * d.queryLength * d.heads * d.headDim, 1)),
        k(fill(d.batch * d.keyLength * d.kvHeads * d.headDim, 2)),
        v(fill(k.size(), 3)),
        dO(fill(q.size(), 4)),
        o(q.size(), std::nan("")),
        lse(d.batch * d.heads * d.queryLength, std::nan("")),
        dq(o),
        dk(k.size(), std::nan("")),
        dv(dk) {}

  static std::vector<T> fill(int64_t n, unsigned seed) {
    const Floats x = randomFloats(n, seed);
    return std::vector<T>(x.begin(), x.end());
  }
};

Tensors<float> compute(const AttentionDesc &d) {
  Tensors<float> t(d);
  attentionForward(d, t.q.data(), t.k.data(), t.v.data(), t.o.data(), t.lse.data());
  attentionBackward(d, t.q.data(), t.k.data(), t.v.data(), t.o.data(), t.lse.data(), t.dO.data(), t.dq.data(),
                    t.dk.data(), t.dv.data());
  return t;
}

Tensors<double> computeReference(const AttentionDesc &d) {
  Tensors<double> t(d);
  reference::attentionForward(d, t.q.data(), t.k.data(), t.v.data(), t.o.data(), t.lse.data());
  reference::attentionBackward(d, t.q.data(), t.k.data(), t.v.data(), t.o.data(), t.lse.data(), t.dO.data(),
                               t.dq.data(), t.dk.data(), t.dv.data());
  return t;
}

void expectEqualsReference(const AttentionDesc &d) {
  SCOPED_TRACE(testing::Message() << "B " << d.batch << " Sq " << d.queryLength << " Sk " << d.keyLength << " H "
                                  << d.heads << "/" << d.kvHeads << " D " << d.headDim << (d.causal ? " causal" : ""));
  const Tensors<float> got = compute(d);
  const Tensors<double> want = computeReference(d);
  EXPECT_LT(relativeError(got.o, want.o), 2e-6);
  Floats lse = got.lse;
  Doubles wantLse = want.lse;
  for (size_t i = 0; i < lse.size(); ++i)
    if (std::isinf(wantLse[i]) && lse[i] == static_cast<float>(wantLse[i])) lse[i] = 0, wantLse[i] = 0;
  EXPECT_LT(relativeError(lse, wantLse), 2e-6);
  EXPECT_LT(relativeError(got.dq, want.dq, 0.1), 5e-6);
  EXPECT_LT(relativeError(got.dk, want.dk, 0.1), 5e-6);
  EXPECT_LT(relativeError(got.dv, want.dv), 5e-6);
}

TEST(Attention, CausalEqualsReferenceOverLengthsAndHeadSizes) {
  for (int64_t length : {1, 7, 64, 97, 195})
    for (int64_t headDim : {1, 8, 20, 64}) expectEqualsReference(denseDesc(2, length, length, 3, 3, headDim));
}

TEST(Attention, LargestHeadSizeEqualsReference) {
  expectEqualsReference(denseDesc(1, 33, 33, 1, 1, kAttentionMaxHeadDim));
}

TEST(Attention, UnmaskedEqualsReference) {
  AttentionDesc d = denseDesc(1, 101, 130, 2, 2, 24);
  d.causal = false;
  expectEqualsReference(d);
}

TEST(Attention, GroupedKeyHeadsEqualReference) { expectEqualsReference(denseDesc(2, 70, 70, 6, 2, 16)); }

TEST(Attention, CausalMaskIsAlignedAtTheEndWhenThereAreMoreKeys) {
  expectEqualsReference(denseDesc(1, 65, 161, 2, 1, 12));
  expectEqualsReference(denseDesc(1, 1, 161, 2, 1, 12));
}

TEST(Attention, SlicesOfOneFusedBufferGiveTheBitsOfDenseTensors) {
  const int64_t length = 50, heads = 3, headDim = 10, width = heads * headDim;
  const AttentionDesc dense = denseDesc(2, length, length, heads, heads, headDim);
  AttentionDesc fused = dense;
  fused.q = fused.k = fused.v = fused.dq = fused.dk = fused.dv = fusedQkvStrides(length, heads, headDim);
  const Tensors<float> want = compute(dense);
  Floats qkv(2 * length * 3 * width), dqkv = notANumber(qkv.size()), o(want.o.size()), lse(want.lse.size());
  for (int64_t row = 0; row < 2 * length; ++row)
    for (int64_t c = 0; c < width; ++c) {
      qkv[row * 3 * width + c] = want.q[row * width + c];
      qkv[row * 3 * width + width + c] = want.k[row * width + c];
      qkv[row * 3 * width + 2 * width + c] = want.v[row * width + c];
    }
  const float *q = qkv.data();
  float *dq = dqkv.data();
  attentionForward(fused, q, q + width, q + 2 * width, o.data(), lse.data());
  attentionBackward(fused, q, q + width, q + 2 * width, o.data(), lse.data(), want.dO.data(), dq, dq + width,
                    dq + 2 * width);
  EXPECT_TRUE(sameBits(o, want.o));
  EXPECT_TRUE(sameBits(lse, want.lse));
  for (int64_t row = 0; row < 2 * length; ++row)
    for (int64_t c = 0; c < width; ++c) {
      ASSERT_EQ(dqkv[row * 3 * width + c], want.dq[row * width + c]);
      ASSERT_EQ(dqkv[row * 3 * width + width + c], want.dk[row * width + c]);
      ASSERT_EQ(dqkv[row * 3 * width + 2 * width + c], want.dv[row * width + c]);
    }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  AttentionDesc d = denseDesc(1, 40, 40, 1, 1, 16);
  d.scale = 500;  // scores in the thousands, of which f32 keeps three digits after the point
  const Tensors<float> got = compute(d);
  const Tensors<double> want = computeReference(d);
  EXPECT_LT(relativeError(got.o, want.o), 1e-3);
  EXPECT_LT(relativeError(got.lse, want.lse), 1e-6);
  for (const Floats *gradient : {&got.dq, &got.dk, &got.dv})
    for (float value : *gradient) EXPECT_TRUE(std::isfinite(value));
}

TEST(Attention, ReferenceGradientsEqualFiniteDifferences) {
  const AttentionDesc d = denseDesc(1, 4, 5, 2, 1, 3);
  const Tensors<double> t = computeReference(d);
  const auto loss = [&](const Doubles &q, const Doubles &k, const Doubles &v) {
    Doubles o(t.o.size()), lse(t.lse.size());
    reference::attentionForward(d, q.data(), k.data(), v.data(), o.data(), lse.data());
    return dot(o, t.dO);
  };
  expectNear(t.dq, finiteDifferences(t.q, [&](const Doubles &x) { return loss(x, t.k, t.v); }), 1e-8);
  expectNear(t.dk, finiteDifferences(t.k, [&](const Doubles &x) { return loss(t.q, x, t.v); }), 1e-8);
  expectNear(t.dv, finiteDifferences(t.v, [&](const Doubles &x) { return loss(t.q, t.k, x); }), 1e-8);
}

TEST(Attention, BitsDoNotDependOnThreads) {
  const AttentionDesc d = denseDesc(2, 150, 150, 4, 2, 32);
  expectBitsIndependentOfThreads([&] {
    Tensors<float> t = compute(d);
    for (const Floats *part : {&t.lse, &t.dq, &t.dk, &t.dv}) t.o.insert(t.o.end(), part->begin(), part->end());
    return t.o;
  });
}

// Bytes of a mask for documents of the given lengths in one sequence: each token sees those of its own.
std::vector<uint8_t> documentMask(const std::vector<int64_t> &lengths, int64_t sequence) {
  std::vector<int64_t> document;
  for (size_t i = 0; i < lengths.size(); ++i) document.insert(document.end(), lengths[i], static_cast<int64_t>(i));
  std::vector<uint8_t> mask(sequence * sequence);
  for (int64_t i = 0; i < sequence; ++i)
    for (int64_t j = 0; j < sequence; ++j) mask[i * sequence + j] = document[i] == document[j];
  return mask;
}

TEST(AttentionMask, EqualsReferenceWhereAnyOfItsDimensionsIsTheSameForAll) {
  for (const bool causal : {true, false})
    for (int alike = 0; alike < 8; ++alike) {
      AttentionDesc d = denseDesc(2, 130, 150, 4, 2, 12);
      d.causal = causal;
      const int64_t shape[] = {alike & 1 ? 1 : 2, alike & 2 ? 1 : 4, alike & 4 ? 1 : 130, 150};
      std::vector<uint8_t> mask(shape[0] * shape[1] * shape[2] * shape[3]);
      const Floats chance = randomFloats(static_cast<int64_t>(mask.size()), 5);
      for (size_t i = 0; i < mask.size(); ++i) mask[i] = chance[i] > 0;
      d.mask = denseAttentionMask(mask.data(), shape);
      SCOPED_TRACE(alike);
      expectEqualsReference(d);
    }
}

// As attention_values.py makes them.
template <typename T>
std::vector<T> numbers(uint32_t word, size_t count) {
  std::vector<T> values;
  for (size_t i = 0; i < count; ++i) {
    word = word * 1664525u + 1013904223u;
    values.push_back(static_cast<T>(static_cast<double>(word >> 8) / 0x1p24 * 2 - 1));
  }
  return values;
}

template <typename T>
Tensors<T> tensorsOfPyTorchs(const AttentionDesc &d) {
  Tensors<T> t(d);
  t.q = numbers<T>(1, t.q.size());
  t.k = numbers<T>(2, t.k.size());
  t.v = numbers<T>(3, t.v.size());
  t.dO = numbers<T>(4, t.dO.size());
  return t;
}

TEST(AttentionMask, ResultsAndGradientsArePyTorchs) {
  std::vector<uint8_t> mask(2 * 7 * 7);
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t j = 0; j < 7; ++j) {
      mask[i * 7 + j] = (i < 3) == (j < 3);
      mask[49 + i * 7 + j] = j < 6;
    }
  const int64_t shape[] = {2, 1, 7, 7};
  for (const bool causal : {false, true}) {
    AttentionDesc d = denseDesc(2, 7, 7, 4, 2, 4);
    d.causal = causal;
    d.mask = denseAttentionMask(mask.data(), shape);
    Tensors<float> t = tensorsOfPyTorchs<float>(d);
    attentionForward(d, t.q.data(), t.k.data(), t.v.data(), t.o.data(), t.lse.data());
    attentionBackward(d, t.q.data(), t.k.data(), t.v.data(), t.o.data(), t.lse.data(), t.dO.data(), t.dq.data(),
                      t.dk.data(), t.dv.data());
    Tensors<double> r = tensorsOfPyTorchs<double>(d);
    reference::attentionForward(d, r.q.data(), r.k.data(), r.v.data(), r.o.data(), r.lse.data());
    reference::attentionBackward(d, r.q.data(), r.k.data(), r.v.data(), r.o.data(), r.lse.data(), r.dO.data(),
                                 r.dq.data(), r.dk.data(), r.dv.data());
    const auto expect = [](const Floats &got, const Doubles &byReference, const double *begin, const double *end) {
      const Doubles want(begin, end);
      EXPECT_LT(relativeError(got, want), 2e-6);
      EXPECT_LT(relativeError(Floats(byReference.begin(), byReference.end()), want), 1e-6);
    };
    SCOPED_TRACE(causal);
    expect(t.o, r.o, causal ? kCausalO : kOpenO, causal ? std::end(kCausalO) : std::end(kOpenO));
    expect(t.dq, r.dq, causal ? kCausalDq : kOpenDq, causal ? std::end(kCausalDq) : std::end(kOpenDq));
    expect(t.dk, r.dk, causal ? kCausalDk : kOpenDk, causal ? std::end(kCausalDk) : std::end(kOpenDk));
    expect(t.dv, r.dv, causal ? kCausalDv : kOpenDv, causal ? std::end(kCausalDv) : std::end(kOpenDv));
  }
}

// What is packed is what is alone: blocks that are skipped leave nothing behind.
TEST(AttentionMask, DocumentsInOneSequenceAreAsDocumentsAlone) {
  const std::vector<int64_t> lengths = {30, 1, 140, 29};
  AttentionDesc packed = denseDesc(1, 200, 200, 2, 2, 16);
  const std::vector<uint8_t> mask = documentMask(lengths, 200);
  const int64_t shape[] = {1, 1, 200, 200};
  packed.mask = denseAttentionMask(mask.data(), shape);
  const Tensors<float> whole = compute(packed);
  int64_t first = 0;
  for (int64_t length : lengths) {
    AttentionDesc alone = denseDesc(1, length, length, 2, 2, 16);
    Tensors<float> t(alone);
    const int64_t shift = first * 32, count = length * 32;
    for (auto member : {&Tensors<float>::q, &Tensors<float>::k, &Tensors<float>::v, &Tensors<float>::dO})
      std::copy_n((whole.*member).begin() + shift, count, (t.*member).begin());
    attentionForward(alone, t.q.data(), t.k.data(), t.v.data(), t.o.data(), t.lse.data());
    attentionBackward(alone, t.q.data(), t.k.data(), t.v.data(), t.o.data(), t.lse.data(), t.dO.data(), t.dq.data(),
                      t.dk.data(), t.dv.data());
    for (auto member : {&Tensors<float>::o, &Tensors<float>::dq, &Tensors<float>::dk, &Tensors<float>::dv})
      for (int64_t i = 0; i < count; ++i)
        ASSERT_NEAR((whole.*member)[shift + i], (t.*member)[i], 2e-6) << first + i / 32;
    first += length;
  }
}

TEST(AttentionMask, QueriesThatSeeNoKeyAreZeroAndGiveNoGradient) {
  AttentionDesc d = denseDesc(1, 9, 9, 1, 1, 8);
  std::vector<uint8_t> mask(9, 0);  // of keys: the first is padding, as on the left of a sequence
  std::fill(mask.begin() + 3, mask.end(), 1);
  const int64_t shape[] = {1, 1, 1, 9};
  d.mask = denseAttentionMask(mask.data(), shape);
  expectEqualsReference(d);
  const Tensors<float> t = compute(d);
  for (int64_t i = 0; i < 3 * 8; ++i) {
    EXPECT_EQ(t.o[i], 0);
    EXPECT_EQ(t.dq[i], 0);
    EXPECT_EQ(t.dk[i], 0);
  }
  EXPECT_EQ(t.lse[0], -std::numeric_limits<float>::infinity());
}

// Keys of two samples, three apart.
constexpr int64_t kSampleKeys[] = {0x243f6a8885a308d3, 0, 0, -0x13198a2e03707344};

AttentionDesc droppingDesc(int64_t queries, int64_t keys, int64_t heads, int64_t kvHeads, double rate) {
  AttentionDesc d = denseDesc(2, queries, keys, heads, kvHeads, 8);
  d.dropout = {rate, kSampleKeys, 3, 0};
  return d;
}

TEST(AttentionDropout, EqualsReferenceOverLengths) {
  for (int64_t length : {1, 7, 64, 97, 195}) expectEqualsReference(droppingDesc(length, length, 3, 3, 0.3));
  expectEqualsReference(droppingDesc(13, 70, 4, 2, 0.5));
  AttentionDesc unmasked = droppingDesc(33, 50, 2, 2, 0.1);
  unmasked.causal = false;
  expectEqualsReference(unmasked);
}

// Two ranks with half of the heads each draw what one with all of them does.
TEST(AttentionDropout, HeadsOfARankDrawByTheirPlaceInTheSample) {
  const AttentionDesc whole = droppingDesc(37, 37, 4, 4, 0.4);
  const Tensors<float> expected = compute(whole);
  for (int64_t half = 0; half < 2; ++half) {
    AttentionDesc part = whole;
    part.heads = part.kvHeads = 2;
    part.dropout.place = half * 2 * 37 * dropoutRow(37);
    const int64_t shift = half * 2 * 8;
    Tensors<float> t(whole);
    std::vector<float> lse(static_cast<size_t>(2 * 2 * 37));
    attentionForward(part, t.q.data() + shift, t.k.data() + shift, t.v.data() + shift, t.o.data() + shift, lse.data());
    attentionBackward(part, t.q.data() + shift, t.k.data() + shift, t.v.data() + shift, t.o.data() + shift, lse.data(),
                      t.dO.data() + shift, t.dq.data() + shift, t.dk.data() + shift, t.dv.data() + shift);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t s = 0; s < 37; ++s)
        for (int64_t c = 0; c < 16; ++c) {
          const size_t at = static_cast<size_t>((b * 37 + s) * 32 + shift + c);
          ASSERT_EQ(t.o[at], expected.o[at]);
          ASSERT_EQ(t.dq[at], expected.dq[at]);
          ASSERT_EQ(t.dk[at], expected.dk[at]);
          ASSERT_EQ(t.dv[at], expected.dv[at]);
        }
  }
}

// With values of 1, o is the sum of what is left of the probabilities: 1 on average, and without dropout exactly.
TEST(AttentionDropout, LeavesTheExpectedSumOfProbabilities) {
  AttentionDesc d = droppingDesc(96, 96, 8, 8, 0.25);
  d.causal = false;
  Tensors<float> t(d);
  std::fill(t.q.begin(), t.q.end(), 0.0f);  // all probabilities are 1/96
  std::fill(t.v.begin(), t.v.end(), 1.0f);
  attentionForward(d, t.q.data(), t.k.data(), t.v.data(), t.o.data(), t.lse.data());
  double sum = 0;
  int64_t zeros = 0;
  for (float o : t.o) {
    sum += static_cast<double>(o);
    // A whole number of probabilities of 1/96, scaled by 4/3.
    const double kept = static_cast<double>(o) * 96 * 0.75;
    EXPECT_NEAR(kept, std::round(kept), 1e-3);
    zeros += std::round(kept) < 96;
  }
  // 2 · 8 · 96 rows of 96 decisions: the mean's standard deviation is √(1/3 / 147456) = 0.0015.
  EXPECT_NEAR(sum / static_cast<double>(t.o.size()), 1, 0.006);
  EXPECT_GT(zeros, 0);
}

}  // namespace
}  // namespace hyc::kernels
