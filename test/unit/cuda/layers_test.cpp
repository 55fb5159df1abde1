// Normalizations, rotary positions, embedding and cross entropy.
#include "device_test.h"
#include "kernels/cross_entropy/cuda.h"
#include "kernels/cross_entropy/reference.h"
#include "kernels/embedding/cuda.h"
#include "kernels/embedding/reference.h"
#include "kernels/group_norm/cuda.h"
#include "kernels/group_norm/reference.h"
#include "kernels/layer_norm/cuda.h"
#include "kernels/layer_norm/reference.h"
#include "kernels/rms_norm/cuda.h"
#include "kernels/rms_norm/reference.h"
#include "kernels/rope/cuda.h"
#include "kernels/rope/reference.h"

namespace hyc::kernels::cuda {
namespace {

struct LayerNorm : CudaTest {};
struct RmsNorm : CudaTest {};
struct GroupNorm : CudaTest {};
struct Rope : CudaTest {};
struct Embedding : CudaTest {};
struct CrossEntropy : CudaTest {};

template <typename T> void expectLayerNorm(int64_t rows, int64_t cols, WriteMode mode) {
  SCOPED_TRACE(testing::Message() << rows << " × " << cols << ", bytes " << sizeof(T));
  LayerNormDesc d;
  d.rows = rows, d.cols = cols;
  const auto x = randomValues<T>(rows * cols, 1), dy = randomValues<T>(rows * cols, 2);
  const auto scale = randomValues<float>(cols, 3), bias = randomValues<float>(cols, 4);
  const auto oldScale = randomValues<float>(cols, 5), oldBias = randomValues<float>(cols, 6);
  const Doubles wx = widened(x), wdy = widened(dy), wscale = widened(scale), wbias = widened(bias);
  Doubles y(wx.size()), mean(static_cast<size_t>(rows)), rstd(mean), dx(wx.size()), dscale = widened(oldScale),
                                                                                    dbias = widened(oldBias);
  reference::layerNormForward(d, wx.data(), wscale.data(), wbias.data(), y.data(), mean.data(), rstd.data());
  reference::layerNormBackward(d, wx.data(), wscale.data(), mean.data(), rstd.data(), wdy.data(), dx.data(),
                               dscale.data(), dbias.data(), mode);
  DeviceArray<T> dX(x), gotY(rows * cols), gotDx(dy); // dx takes the place of dy
  DeviceArray<float> dScale(scale), dBias(bias), gotMean(rows), gotRstd(rows), gotScale(oldScale), gotBias(oldBias);
  DeviceArray<float> workspace(rowSumsBytes(rows, cols, 2) / int64_t{sizeof(float)});
  layerNormForward<T>(nullptr, d, dX, dScale, dBias, gotY, gotMean, gotRstd);
  layerNormBackward<T>(nullptr, d, dX, dScale, gotMean, gotRstd, gotDx, gotDx, gotScale, gotBias, mode, workspace);
  EXPECT_LT(relativeError(gotY.readDoubles(), y), 8 * kEpsilon<T>);
  EXPECT_LT(relativeError(gotMean.readDoubles(), mean), 1e-6);
  EXPECT_LT(relativeError(gotRstd.readDoubles(), rstd), 1e-6);
  EXPECT_LT(relativeError(gotDx.readDoubles(), dx), 8 * kEpsilon<T>);
  EXPECT_LT(relativeError(gotScale.readDoubles(), dscale), 2e-6);
  EXPECT_LT(relativeError(gotBias.readDoubles(), dbias), 2e-6);
}

TEST_F(LayerNorm, EqualsTheReference) {
  for (const auto &[rows, cols] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 8}, {5, 768}, {300, 33}, {7, 1032}, {2, 8200}, {8201, 64}, {300, 2056}}) {
    expectLayerNorm<float>(rows, cols, WriteMode::kOverwrite);
    expectLayerNorm<Bf16>(rows, cols, WriteMode::kAccumulate);
    expectLayerNorm<F16>(rows, cols, WriteMode::kOverwrite);
  }
}

template <typename T> void expectRmsNorm(int64_t rows, int64_t cols, WriteMode mode) {
  SCOPED_TRACE(testing::Message() << rows << " × " << cols << ", bytes " << sizeof(T));
  RmsNormDesc d;
  d.rows = rows, d.cols = cols;
  const auto x = randomValues<T>(rows * cols, 1), dy = randomValues<T>(rows * cols, 2);
  const auto scale = randomValues<float>(cols, 3), oldScale = randomValues<float>(cols, 5);
  const Doubles wx = widened(x), wdy = widened(dy), wscale = widened(scale);
  Doubles y(wx.size()), rstd(static_cast<size_t>(rows)), dx(wx.size()), dscale = widened(oldScale);
  reference::rmsNormForward(d, wx.data(), wscale.data(), y.data(), rstd.data());
  reference::rmsNormBackward(d, wx.data(), wscale.data(), rstd.data(), wdy.data(), dx.data(), dscale.data(), mode);
  DeviceArray<T> dX(x), gotY(rows * cols), gotDx(dy); // dx takes the place of dy
  DeviceArray<float> dScale(scale), gotRstd(rows), gotScale(oldScale);
  DeviceArray<float> workspace(rowSumsBytes(rows, cols, 1) / int64_t{sizeof(float)});
  rmsNormForward<T>(nullptr, d, dX, dScale, gotY, gotRstd);
  rmsNormBackward<T>(nullptr, d, dX, dScale, gotRstd, gotDx, gotDx, gotScale, mode, workspace);
  EXPECT_LT(relativeError(gotY.readDoubles(), y), 8 * kEpsilon<T>);
  EXPECT_LT(relativeError(gotRstd.readDoubles(), rstd), 1e-6);
  EXPECT_LT(relativeError(gotDx.readDoubles(), dx), 8 * kEpsilon<T>);
  EXPECT_LT(relativeError(gotScale.readDoubles(), dscale), 2e-6);
}

TEST_F(RmsNorm, EqualsTheReference) {
  for (const auto &[rows, cols] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 8}, {5, 768}, {300, 33}, {7, 1032}, {2, 8200}, {8201, 64}, {300, 2056}}) {
    expectRmsNorm<float>(rows, cols, WriteMode::kOverwrite);
    expectRmsNorm<Bf16>(rows, cols, WriteMode::kAccumulate);
    expectRmsNorm<F16>(rows, cols, WriteMode::kOverwrite);
  }
}

template <typename T> void expectGroupNorm(const GroupNormDesc &d, WriteMode mode) {
  SCOPED_TRACE(testing::Message() << d.samples << " × " << d.groups << " × " << d.channels << " × " << d.positions
                                  << ", bytes " << sizeof(T));
  const int64_t width = d.groups * d.channels, rows = d.samples * d.groups, size = d.samples * width * d.positions;
  const auto x = randomValues<T>(size, 1), dy = randomValues<T>(size, 2);
  const auto scale = randomValues<float>(width, 3), bias = randomValues<float>(width, 4);
  const auto oldScale = randomValues<float>(width, 5), oldBias = randomValues<float>(width, 6);
  const Doubles wx = widened(x), wdy = widened(dy), wscale = widened(scale), wbias = widened(bias);
  Doubles y(wx.size()), mean(static_cast<size_t>(rows)), rstd(mean), dx(y), dscale = widened(oldScale),
                                                                            dbias = widened(oldBias);
  reference::groupNormForward(d, wx.data(), wscale.data(), wbias.data(), y.data(), mean.data(), rstd.data());
  reference::groupNormBackward(d, wx.data(), wscale.data(), mean.data(), rstd.data(), wdy.data(), dx.data(),
                               dscale.data(), dbias.data(), mode);
  DeviceArray<T> dX(x), gotY(size), gotDx(dy); // dx takes the place of dy
  DeviceArray<float> dScale(scale), dBias(bias), gotMean(rows), gotRstd(rows), gotScale(oldScale), gotBias(oldBias);
  DeviceArray<float> workspace(d.samples * width * 2);
  groupNormForward<T>(nullptr, d, dX, dScale, dBias, gotY, gotMean, gotRstd);
  groupNormBackward<T>(nullptr, d, dX, dScale, gotMean, gotRstd, gotDx, gotDx, gotScale, gotBias, mode, workspace);
  EXPECT_LT(relativeError(gotY.readDoubles(), y), 8 * kEpsilon<T>);
  EXPECT_LT(relativeError(gotMean.readDoubles(), mean), 2e-6);
  EXPECT_LT(relativeError(gotRstd.readDoubles(), rstd), 2e-6);
  EXPECT_LT(relativeError(gotDx.readDoubles(), dx), 8 * kEpsilon<T>);
  EXPECT_LT(relativeError(gotScale.readDoubles(), dscale), 4e-6);
  EXPECT_LT(relativeError(gotBias.readDoubles(), dbias), 4e-6);
}

TEST_F(GroupNorm, EqualsTheReference) {
  for (const GroupNormDesc &d : std::vector<GroupNormDesc>{
           {3, 2, 4, 64}, {2, 3, 5, 49}, {5, 4, 8, 1}, {1, 2, 3, 3000}, {2, 40, 1, 16}, {2, 1, 300, 36}}) {
    expectGroupNorm<float>(d, WriteMode::kOverwrite);
    expectGroupNorm<Bf16>(d, WriteMode::kAccumulate);
    expectGroupNorm<F16>(d, WriteMode::kOverwrite);
  }
}

// More columns than combining them has threads for at once. x and dy are all ones, and so is the gradient of each.
TEST_F(RmsNorm, GivesTheGradientOfVeryWideRows) {
  RmsNormDesc d;
  d.rows = 1, d.cols = 1100001;
  const std::vector<Bf16> ones(static_cast<size_t>(d.cols), Bf16(1.0f));
  DeviceArray<Bf16> x(ones), dy(ones);
  DeviceArray<float> rstd(std::vector<float>{1.0f}), got(d.cols), workspace(d.cols);
  ASSERT_EQ(rmsNormBackwardWorkspaceBytes(d), static_cast<size_t>(d.cols) * sizeof(float));
  rmsNormBackward<Bf16>(nullptr, d, x, nullptr, rstd, dy, nullptr, got, WriteMode::kOverwrite, workspace);
  EXPECT_EQ(got.read(), std::vector<float>(static_cast<size_t>(d.cols), 1.0f));
}
TEST_F(LayerNorm, GivesTheGradientsOfVeryWideRows) {
  LayerNormDesc d;
  d.rows = 1, d.cols = 600001;
  const std::vector<Bf16> ones(static_cast<size_t>(d.cols), Bf16(1.0f));
  DeviceArray<Bf16> x(ones), dy(ones);
  DeviceArray<float> mean(std::vector<float>{0.5f}), rstd(std::vector<float>{1.0f}), dscale(d.cols), dbias(d.cols),
      workspace(2 * d.cols);
  layerNormBackward<Bf16>(nullptr, d, x, nullptr, mean, rstd, dy, nullptr, dscale, dbias, WriteMode::kOverwrite,
                          workspace);
  EXPECT_EQ(dscale.read(), std::vector<float>(static_cast<size_t>(d.cols), 0.5f));
  EXPECT_EQ(dbias.read(), std::vector<float>(static_cast<size_t>(d.cols), 1.0f));
}

// Heads of headDim, of which the first 2 · pairs turn. Then the inverse, in place, gives back what was there.
template <typename T> void expectRope(int64_t headDim, int64_t pairs, bool tablePerSample) {
  SCOPED_TRACE(testing::Message() << headDim << " of which " << 2 * pairs << " turn, bytes " << sizeof(T));
  RopeDesc d;
  d.batch = 2, d.length = 9, d.heads = 3, d.headDim = headDim, d.pairs = pairs, d.tablePerSample = tablePerSample;
  const int64_t positions = d.length * (tablePerSample ? d.batch : 1);
  const auto x = randomValues<T>(d.batch * d.length * d.heads * headDim, 1);
  std::vector<float> frequencies;
  for (int64_t i = 0; i < pairs; ++i)
    frequencies.push_back(100 * std::pow(1e-4f, static_cast<float>(i) / static_cast<float>(pairs)));
  RotaryTableDesc table;
  table.positions = positions, table.pairs = pairs, table.factor = 0.75;
  DeviceArray<float> cos(positions * pairs), sin(positions * pairs);
  rotaryTable(nullptr, table, frequencies.data(), cos, sin);
  Doubles wantCos(static_cast<size_t>(positions * pairs)), wantSin(wantCos);
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < pairs; ++i) { // the angle is rounded to f32 first
      const size_t at = static_cast<size_t>(p * pairs + i);
      const double angle = static_cast<float>(p) * frequencies[static_cast<size_t>(i)];
      wantCos[at] = 0.75 * std::cos(angle), wantSin[at] = 0.75 * std::sin(angle);
    }
  EXPECT_LT(relativeError(cos.readDoubles(), wantCos), 2e-7);
  EXPECT_LT(relativeError(sin.readDoubles(), wantSin), 2e-7);

  const Doubles usedCos = cos.readDoubles(), usedSin = sin.readDoubles(), wx = widened(x);
  Doubles want(wx.size()), back(wx.size());
  DeviceArray<T> dX(x), got(static_cast<int64_t>(x.size()));
  rope<T>(nullptr, d, dX, cos, sin, got);
  reference::rope(d, wx.data(), usedCos.data(), usedSin.data(), want.data());
  EXPECT_LT(relativeError(got.readDoubles(), want), 2 * kEpsilon<T>);
  d.inverse = true;
  const Doubles turned = got.readDoubles();
  rope<T>(nullptr, d, got, cos, sin, got);
  reference::rope(d, turned.data(), usedCos.data(), usedSin.data(), back.data());
  EXPECT_LT(relativeError(got.readDoubles(), back), 2 * kEpsilon<T>);
}

TEST_F(Rope, EqualsTheReferenceAndItsInverse) {
  expectRope<float>(64, 32, false);
  expectRope<float>(10, 3, true);
  expectRope<Bf16>(48, 16, true);
  expectRope<Bf16>(80, 40, false);
  expectRope<F16>(128, 64, false);
  expectRope<F16>(18, 9, false);
}

TEST_F(Rope, TablesOfMorePairsThanALaunchTakes) {
  RotaryTableDesc d;
  d.positions = 3, d.pairs = 700;
  std::vector<float> frequencies;
  for (int64_t i = 0; i < d.pairs; ++i)
    frequencies.push_back(static_cast<float>(i) / 64);
  DeviceArray<float> cos(d.positions * d.pairs), sin(d.positions * d.pairs);
  rotaryTable(nullptr, d, frequencies.data(), cos, sin);
  Doubles wantCos(static_cast<size_t>(d.positions * d.pairs)), wantSin(wantCos);
  reference::rotaryTable(d, frequencies.data(), wantCos.data(), wantSin.data());
  EXPECT_LT(relativeError(cos.readDoubles(), wantCos), 2e-7);
  EXPECT_LT(relativeError(sin.readDoubles(), wantSin), 2e-7);
}

template <typename T> void expectEmbedding(int64_t tokens, int64_t width, int64_t start, WriteMode mode) {
  EmbeddingDesc d;
  d.tokens = tokens, d.rows = 20, d.width = width;
  std::vector<int64_t> ids;
  std::mt19937 generator(7);
  for (int64_t t = 0; t < tokens; ++t)
    ids.push_back(t % 3 ? int64_t(generator() % 30) : 11); // one row has many
  if (tokens > 1)
    ids[1] = INT64_MIN, ids.back() = INT64_MAX; // rows of nobody: nothing is read or written
  const auto table = randomValues<T>(d.rows * width, 1), dout = randomValues<T>(tokens * width, 2);
  const auto old = randomValues<float>(d.rows * width, 3);
  EmbeddingDesc onHost = d;
  onHost.start = start;
  const Doubles wtable = widened(table);
  Doubles out(static_cast<size_t>(tokens * width));
  reference::embedding(onHost, ids.data(), wtable.data(), out.data());
  // The sums' order is part of the contract: the reference in f32 gives the same bits.
  std::vector<float> dtable = old, wdout;
  for (const T &value : dout)
    wdout.push_back(static_cast<float>(value));
  reference::embeddingGrad(onHost, ids.data(), wdout.data(), dtable.data(), mode);
  DeviceArray<int64_t> dIds(ids), dStart(std::vector<int64_t>{start});
  DeviceArray<T> dTable(table), gotOut(tokens * width), dDout(dout);
  DeviceArray<float> gotTable(old);
  embedding<T>(nullptr, d, dStart, dIds, dTable, gotOut);
  DeviceArray<uint8_t> workspace(static_cast<int64_t>(embeddingGradWorkspaceBytes(d)));
  embeddingGrad<T>(nullptr, d, dStart, dIds, dDout, gotTable, mode, workspace);
  EXPECT_EQ(gotOut.readDoubles(), out);
  EXPECT_TRUE(sameBits(gotTable.read(), dtable)) << tokens << " tokens of " << width;
}

TEST_F(Embedding, HasTheReferencesBits) {
  expectEmbedding<float>(40, 24, 0, WriteMode::kOverwrite);
  expectEmbedding<float>(600, 7, 5, WriteMode::kAccumulate);
  expectEmbedding<Bf16>(300, 32, 10, WriteMode::kAccumulate);
  expectEmbedding<F16>(1, 300, 0, WriteMode::kOverwrite);
  expectEmbedding<Bf16>(129, 516, 1, WriteMode::kOverwrite);
  expectEmbedding<Bf16>(2100, 8, 3, WriteMode::kAccumulate); // more than are compared at once
}

/// A batch of logits with labels, a quarter of them ignored and an eighth beyond both ends, and what the reference
/// makes of it in f64.
template <typename T> struct LossCase {
  LossCase(int64_t tokens, int64_t vocabulary) : logits(randomValues<T>(tokens * vocabulary, 1)) {
    d.tokens = tokens, d.localVocab = vocabulary;
    for (int64_t t = 0; t < tokens; ++t)
      labels.push_back(t % 4 == 3 ? -100 : t % 16 == 5 ? INT64_MIN : t % 16 == 13 ? INT64_MAX : t * 7 % vocabulary);
    const Doubles wide = widened(logits);
    lse.resize(static_cast<size_t>(tokens));
    dlogits.resize(wide.size());
    Doubles picked(lse);
    reference::crossEntropyForward(d, wide.data(), labels.data(), lse.data(), picked.data(), &loss, &count);
    reference::crossEntropyGrad(d, wide.data(), labels.data(), lse.data(), 0.5, dlogits.data());
  }

  CrossEntropyDesc d;
  std::vector<T> logits;
  std::vector<int64_t> labels;
  Doubles lse, dlogits;
  double loss = 0;
  int64_t count = 0;
};

/// One of two shards of a case's vocabulary, on the device; the second has padding, which is never read.
template <typename T> struct LossShard {
  LossShard(const LossCase<T> &whole, int64_t index, int64_t columns)
      : begin(index * columns), columns(columns), first(std::vector<int64_t>{begin}), logits(padded(whole)),
        part{first, whole.d.localVocab, columns} {
    d.tokens = whole.d.tokens;
  }

  std::vector<T> padded(const LossCase<T> &whole) const {
    std::vector<T> shard(static_cast<size_t>(whole.d.tokens * columns), T(std::nanf("")));
    for (int64_t t = 0; t < whole.d.tokens; ++t)
      for (int64_t c = 0; c < columns && begin + c < whole.d.localVocab; ++c)
        shard[static_cast<size_t>(t * columns + c)] =
            whole.logits[static_cast<size_t>(t * whole.d.localVocab + begin + c)];
    return shard;
  }

  /// The largest difference of this shard's gradient from the reference's.
  double errorOf(const LossCase<T> &whole, const Doubles &gradient) const {
    double error = 0;
    for (int64_t t = 0; t < whole.d.tokens; ++t)
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t v = begin + c;
        const double want = v < whole.d.localVocab ? whole.dlogits[static_cast<size_t>(t * whole.d.localVocab + v)] : 0;
        error = std::fmax(error, std::fabs(gradient[static_cast<size_t>(t * columns + c)] - want));
      }
    return error;
  }

  int64_t begin, columns;
  CrossEntropyDesc d;
  DeviceArray<int64_t> first;
  DeviceArray<T> logits;
  VocabularyShard part;
};

/// The same vocabulary in two shards: the maximum first, then sums and gradients, then all combined.
template <typename T> void expectCrossEntropyOfShards(const LossCase<T> &whole, DeviceArray<float> &lse) {
  const int64_t tokens = whole.d.tokens, columns = (whole.d.localVocab + 8) / 2 / 8 * 8 + 8;
  DeviceArray<int64_t> labels(whole.labels);
  DeviceArray<float> scale(std::vector<float>{0.5f});
  std::vector<float> most(static_cast<size_t>(tokens), -INFINITY), sums(most.size(), 0.0f), labelLogits(sums);
  for (int64_t s = 0; s < 2; ++s) {
    LossShard<T> shard(whole, s, columns);
    DeviceArray<float> shardMost(tokens);
    crossEntropyRowMax<T>(nullptr, shard.d, shard.part, shard.logits, shardMost);
    const std::vector<float> got = shardMost.read();
    for (size_t t = 0; t < got.size(); ++t)
      most[t] = std::fmax(most[t], got[t]);
  }
  DeviceArray<float> dMost(most);
  for (int64_t s = 0; s < 2; ++s) {
    LossShard<T> shard(whole, s, columns);
    DeviceArray<float> dSum(tokens), dPicked(tokens);
    crossEntropySumExp<T>(nullptr, shard.d, shard.part, shard.logits, labels, dMost, dSum, dPicked);
    const std::vector<float> sum = dSum.read(), one = dPicked.read();
    for (size_t t = 0; t < sum.size(); ++t)
      sums[t] += sum[t], labelLogits[t] += one[t];
    DeviceArray<T> gradient(tokens * columns);
    crossEntropyGrad<T>(nullptr, shard.d, shard.part, shard.logits, labels, lse, scale, gradient);
    EXPECT_LT(shard.errorOf(whole, gradient.readDoubles()), 2 * kEpsilon<T>);
  }
  DeviceArray<float> dSums(sums), dPicked(labelLogits), loss(1);
  DeviceArray<int64_t> count(1);
  crossEntropyCombine(nullptr, whole.d, labels, dMost, dSums, dPicked, dSums, loss, count);
  EXPECT_LT(relativeError(dSums.readDoubles(), whole.lse), 1e-6);
  EXPECT_NEAR(loss.read()[0], whole.loss, 1e-5 * std::fabs(whole.loss));
  EXPECT_EQ(count.read()[0], whole.count);
}

template <typename T> void expectCrossEntropy(int64_t tokens, int64_t vocabulary) {
  SCOPED_TRACE(testing::Message() << tokens << " tokens of " << vocabulary << ", bytes " << sizeof(T));
  const LossCase<T> whole(tokens, vocabulary);
  DeviceArray<T> logits(whole.logits);
  DeviceArray<int64_t> labels(whole.labels), count(1);
  DeviceArray<float> lse(tokens), picked(tokens), loss(1);
  crossEntropyForward<T>(nullptr, whole.d, logits, labels, lse, picked, loss, count);
  EXPECT_LT(relativeError(lse.readDoubles(), whole.lse), 1e-6);
  EXPECT_EQ(count.read()[0], whole.count);
  EXPECT_NEAR(loss.read()[0], whole.loss, 1e-5 * std::fabs(whole.loss));
  expectCrossEntropyOfShards(whole, lse);
}

// Masked logits are −∞: whole packs of them come before what counts, and what counts is the largest number there is in
// some thread but not in others.
template <typename T> void expectMaskedCrossEntropy() {
  CrossEntropyDesc d;
  d.tokens = 3, d.localVocab = 5003;
  std::vector<T> logits = randomValues<T>(d.tokens * d.localVocab, 1);
  for (int64_t v = 0; v < d.localVocab; ++v) {
    if (v % 700 < 650)
      logits[static_cast<size_t>(v)] = T(-INFINITY);
    logits[static_cast<size_t>(d.localVocab + v)] = T(static_cast<float>(v) / 100);
  }
  logits[static_cast<size_t>(2 * d.localVocab + 4000)] = T(NAN);
  const std::vector<int64_t> labels{699, 5002, 1};
  const Doubles wide = widened(logits);
  Doubles lse(3), picked(3);
  double loss = 0;
  int64_t count = 0;
  reference::crossEntropyForward(d, wide.data(), labels.data(), lse.data(), picked.data(), &loss, &count);
  DeviceArray<T> x(logits);
  DeviceArray<int64_t> dLabels(labels), gotCount(1);
  DeviceArray<float> gotLse(3), gotPicked(3), gotLoss(1);
  crossEntropyForward<T>(nullptr, d, x, dLabels, gotLse, gotPicked, gotLoss, gotCount);
  const std::vector<float> got = gotLse.read();
  EXPECT_NEAR(got[0], lse[0], 2e-6 * std::fabs(lse[0]));
  EXPECT_NEAR(got[1], lse[1], 2e-6 * std::fabs(lse[1]));
  EXPECT_TRUE(std::isnan(got[2]));
}
TEST_F(CrossEntropy, LeavesMaskedLogitsOutAndKeepsNaN) {
  expectMaskedCrossEntropy<float>();
  expectMaskedCrossEntropy<Bf16>();
}

TEST_F(CrossEntropy, EqualsTheReferenceWholeAndInShards) {
  expectCrossEntropy<float>(5, 1000);
  expectCrossEntropy<float>(40, 37);
  expectCrossEntropy<Bf16>(9, 515);
  expectCrossEntropy<F16>(3, 64);
}

} // namespace
} // namespace hyc::kernels::cuda
