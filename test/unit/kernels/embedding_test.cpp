// Lookups and their gradient, whole and over shards of the table.
#include "kernel_test.h"
#include "kernels/embedding/reference.h"

namespace hyc::kernels {
namespace {

std::vector<int64_t> someIds(int64_t n, int64_t vocabulary) {
  std::mt19937 generator(11);
  std::vector<int64_t> ids(n);
  for (int64_t &id : ids) id = static_cast<int64_t>(generator() % vocabulary);
  return ids;
}

TEST(Embedding, LookupEqualsReferenceAndIsZeroForIdsHeldElsewhere) {
  const EmbeddingDesc d = {200, 20, 37, 10};
  std::vector<int64_t> ids = someIds(d.tokens, 50);
  ids[0] = INT64_MIN;  // hostile ids must not overflow into the table
  ids[1] = INT64_MAX;
  const Floats table = randomFloats(d.rows * d.width, 1);
  Floats out = notANumber(d.tokens * d.width), want(out.size());
  embedding(d, ids.data(), table.data(), out.data());
  reference::embedding(d, ids.data(), table.data(), want.data());
  EXPECT_TRUE(sameBits(out, want));
  for (int64_t c = 0; c < 2 * d.width; ++c) EXPECT_EQ(out[c], 0.0f);
}

TEST(Embedding, ShardsAddUpToTheWhole) {
  const std::vector<int64_t> ids = someIds(60, 31);
  const Floats table = randomFloats(31 * 9, 1);
  Floats whole(60 * 9), low(whole.size()), high(whole.size());
  embedding({60, 31, 9, 0}, ids.data(), table.data(), whole.data());
  embedding({60, 16, 9, 0}, ids.data(), table.data(), low.data());
  embedding({60, 15, 9, 16}, ids.data(), table.data() + 16 * 9, high.data());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(low[i] + high[i], whole[i]);
}

TEST(Embedding, GradientAddsTokensInOrderInBothModes) {
  const EmbeddingDesc d = {300, 20, 37, 10};
  const std::vector<int64_t> ids = someIds(d.tokens, 50);
  const Floats dout = randomFloats(d.tokens * d.width, 2);
  for (WriteMode mode : {WriteMode::kOverwrite, WriteMode::kAccumulate}) {
    Floats got = mode == WriteMode::kAccumulate ? randomFloats(d.rows * d.width, 3) : notANumber(d.rows * d.width);
    Floats want = got;
    embeddingGrad(d, ids.data(), dout.data(), got.data(), mode);
    reference::embeddingGrad(d, ids.data(), dout.data(), want.data(), mode);
    EXPECT_TRUE(sameBits(got, want));  // the same additions in the same order
  }
}

TEST(Embedding, ReferenceGradientEqualsFiniteDifferences) {
  const EmbeddingDesc d = {6, 3, 2, 1};
  const std::vector<int64_t> ids = {1, 3, 0, 3, 4, 2};
  const Doubles table = widen(randomFloats(6, 1)), dout = widen(randomFloats(12, 2));
  Doubles dtable(6);
  reference::embeddingGrad(d, ids.data(), dout.data(), dtable.data(), WriteMode::kOverwrite);
  expectNear(dtable,
             finiteDifferences(table,
                               [&](const Doubles &x) {
                                 Doubles out(12);
                                 reference::embedding(d, ids.data(), x.data(), out.data());
                                 return dot(out, dout);
                               }),
             1e-8);
}

TEST(Embedding, BitsDoNotDependOnThreads) {
  const EmbeddingDesc d = {2000, 20, 130, 10};
  const std::vector<int64_t> ids = someIds(d.tokens, 50);
  const Floats dout = randomFloats(d.tokens * d.width, 2);
  expectBitsIndependentOfThreads([&] {
    Floats dtable(d.rows * d.width);
    embeddingGrad(d, ids.data(), dout.data(), dtable.data(), WriteMode::kOverwrite);
    return dtable;
  });
}

}  // namespace
}  // namespace hyc::kernels
