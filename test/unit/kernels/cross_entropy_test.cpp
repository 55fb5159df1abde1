// The loss and its gradient, fused and in pieces, whole and over shards of the vocabulary.
#include "kernel_test.h"
#include "kernels/cross_entropy/reference.h"

namespace hyc::kernels {
namespace {

struct Case {
  CrossEntropyDesc desc;
  Floats logits;
  std::vector<int64_t> labels;

  Case(int64_t tokens, int64_t vocabulary, int64_t ld) : logits(notANumber(tokens * ld)), labels(tokens) {
    desc.tokens = tokens;
    desc.localVocab = vocabulary;
    desc.ld = ld;
    const Floats values = randomFloats(tokens * vocabulary, 1);
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t v = 0; v < vocabulary; ++v) logits[t * ld + v] = 5 * values[t * vocabulary + v];
      labels[t] = t % 5 == 3 ? desc.ignoreIndex : t * 7 % vocabulary;
    }
  }
};

struct Forward {
  Floats lse, picked;
  float lossSum = 0;
  int64_t count = 0;
};

Forward forward(const Case &c) {
  Forward f = {Floats(c.desc.tokens), Floats(c.desc.tokens)};
  crossEntropyForward(c.desc, c.logits.data(), c.labels.data(), f.lse.data(), f.picked.data(), &f.lossSum, &f.count);
  return f;
}

TEST(CrossEntropy, ForwardEqualsReferenceAndNeverReadsPadding) {
  for (int64_t vocabulary : {1, 5, 33, 259, 1031}) {
    const Case c(23, vocabulary, vocabulary + 3);
    const Forward got = forward(c);
    Doubles lse(23), picked(23);
    double lossSum;
    int64_t count;
    reference::crossEntropyForward(c.desc, widen(c.logits).data(), c.labels.data(), lse.data(), picked.data(), &lossSum,
                                   &count);
    EXPECT_LT(relativeError(got.lse, lse), 1e-6);
    EXPECT_NEAR(got.lossSum, lossSum, 1e-6 * std::fabs(lossSum) + 1e-6);
    EXPECT_EQ(got.count, count);
    EXPECT_EQ(count, 19);
  }
}

TEST(CrossEntropy, PiecesOnOneRankGiveTheBitsOfTheFusedPass) {
  const Case c(17, 101, 101);
  const Forward want = forward(c);
  Floats max(17), sumExp(17), picked(17);
  float lossSum;
  int64_t count;
  crossEntropyRowMax(c.desc, c.logits.data(), max.data());
  crossEntropySumExp(c.desc, c.logits.data(), c.labels.data(), max.data(), sumExp.data(), picked.data());
  crossEntropyCombine(c.desc, c.labels.data(), max.data(), sumExp.data(), picked.data(), max.data(), &lossSum, &count);
  EXPECT_TRUE(sameBits(max, want.lse));
  EXPECT_EQ(lossSum, want.lossSum);
  EXPECT_EQ(count, want.count);
}

// Three ranks hold 40, 21 and 0 columns of the vocabulary; the exchanges between the pieces are done by hand.
TEST(CrossEntropy, VocabularyShardsGiveLossAndGradientOfTheWhole) {
  const int64_t tokens = 13, vocabulary = 61;
  const Case c(tokens, vocabulary, vocabulary);
  const Forward want = forward(c);
  Floats wantGrad(c.logits.size());
  crossEntropyGrad(c.desc, c.logits.data(), c.labels.data(), want.lse.data(), 0.5f, wantGrad.data());
  const int64_t starts[] = {0, 40, 61}, sizes[] = {40, 21, 0}, ld = 44;
  Floats shards[3], max(tokens, -INFINITY), sumExp(tokens, 0), picked(tokens, 0);
  CrossEntropyDesc descs[3];
  for (int rank = 0; rank < 3; ++rank) {
    descs[rank] = c.desc;
    descs[rank].vocabStart = starts[rank];
    descs[rank].localVocab = sizes[rank];
    descs[rank].ld = ld;
    shards[rank] = notANumber(tokens * ld);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t v = 0; v < sizes[rank]; ++v) shards[rank][t * ld + v] = c.logits[t * vocabulary + starts[rank] + v];
    Floats local(tokens);
    crossEntropyRowMax(descs[rank], shards[rank].data(), local.data());
    for (int64_t t = 0; t < tokens; ++t) max[t] = std::fmax(max[t], local[t]);
  }
  for (int rank = 0; rank < 3; ++rank) {
    Floats localSum(tokens), localPicked(tokens);
    crossEntropySumExp(descs[rank], shards[rank].data(), c.labels.data(), max.data(), localSum.data(),
                       localPicked.data());
    for (int64_t t = 0; t < tokens; ++t) {
      sumExp[t] += localSum[t];
      picked[t] += localPicked[t];
    }
  }
  Floats lse(tokens);
  float lossSum;
  int64_t count;
  crossEntropyCombine(c.desc, c.labels.data(), max.data(), sumExp.data(), picked.data(), lse.data(), &lossSum, &count);
  EXPECT_NEAR(lossSum, want.lossSum, 1e-6 * want.lossSum);
  EXPECT_EQ(count, want.count);
  EXPECT_LT(relativeError(lse, widen(want.lse)), 1e-6);
  for (int rank = 0; rank < 3; ++rank) {
    crossEntropyGrad(descs[rank], shards[rank].data(), c.labels.data(), want.lse.data(), 0.5f, shards[rank].data());
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t v = 0; v < ld; ++v)
        EXPECT_EQ(shards[rank][t * ld + v], v < sizes[rank] ? wantGrad[t * vocabulary + starts[rank] + v] : 0.0f);
  }
}

TEST(CrossEntropy, GradientEqualsReferenceAlsoInPlace) {
  Case c(23, 131, 140);
  const Forward f = forward(c);
  Doubles want(c.logits.size());
  reference::crossEntropyGrad(c.desc, widen(c.logits).data(), c.labels.data(), widen(f.lse).data(), 0.25, want.data());
  Floats got = notANumber(c.logits.size());
  crossEntropyGrad(c.desc, c.logits.data(), c.labels.data(), f.lse.data(), 0.25f, got.data());
  EXPECT_LT(relativeError(got, want), 1e-6);
  crossEntropyGrad(c.desc, c.logits.data(), c.labels.data(), f.lse.data(), 0.25f, c.logits.data());
  EXPECT_TRUE(sameBits(c.logits, got));
}

TEST(CrossEntropy, ReferenceGradientEqualsFiniteDifferences) {
  const Case c(5, 7, 7);
  const Doubles logits = widen(c.logits);
  Doubles lse(5), picked(5), gradient(35);
  double lossSum;
  int64_t count;
  const auto loss = [&](const Doubles &x) {
    reference::crossEntropyForward(c.desc, x.data(), c.labels.data(), lse.data(), picked.data(), &lossSum, &count);
    return lossSum;
  };
  const Doubles want = finiteDifferences(logits, loss);
  loss(logits);
  reference::crossEntropyGrad(c.desc, logits.data(), c.labels.data(), lse.data(), 1.0, gradient.data());
  expectNear(gradient, want, 1e-8);
}

TEST(CrossEntropy, AllTokensIgnoredGivesZeroLossAndGradient) {
  Case c(4, 9, 9);
  for (int64_t &label : c.labels) label = c.desc.ignoreIndex;
  const Forward f = forward(c);
  EXPECT_EQ(f.lossSum, 0.0f);
  EXPECT_EQ(f.count, 0);
  crossEntropyGrad(c.desc, c.logits.data(), c.labels.data(), f.lse.data(), 1.0f, c.logits.data());
  EXPECT_EQ(c.logits, Floats(36, 0.0f));
}

TEST(CrossEntropy, BitsDoNotDependOnThreads) {
  const Case c(301, 259, 260);
  expectBitsIndependentOfThreads([&] {
    Forward f = forward(c);
    Floats result(c.logits.size());
    crossEntropyGrad(c.desc, c.logits.data(), c.labels.data(), f.lse.data(), 1.0f, result.data());
    result.insert(result.end(), f.lse.begin(), f.lse.end());
    result.push_back(f.lossSum);
    return result;
  });
}

}  // namespace
}  // namespace hyc::kernels
