// Attention on a GPU, or on the emulated one, against the reference.
#include "device_test.h"
#include "kernels/attention/cuda.h"
#include "kernels/attention/cuda_order.h"
#include "kernels/attention/reference.h"

namespace hyc::kernels::cuda {
namespace {

struct Attention : CudaTest {};

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

// relativeError of the finite ones; infinite where they are not infinite alike.
double relativeErrorOfLse(Doubles got, Doubles want) {
  for (size_t i = 0; i < want.size(); ++i)
    if (want[i] == -INFINITY && got[i] == -INFINITY)
      got[i] = want[i] = 0;
  return relativeError(got, want);
}

// Forward and backward of T against the reference in f64 over the same numbers. `tolerance` counts roundings of T.
// `mask` holds what asked.mask steps over; empty: nothing masks.
template <typename T>
void expectEqualsReference(const AttentionDesc &asked, double tolerance, const std::vector<uint8_t> &mask = {}) {
  AttentionDesc d = asked;
  SCOPED_TRACE(testing::Message() << "B " << d.batch << " Sq " << d.queryLength << " Sk " << d.keyLength << " H "
                                  << d.heads << "/" << d.kvHeads << " D " << d.headDim << " causal " << d.causal
                                  << " scale " << d.scale << " dropout " << d.dropout.rate << " bytes " << sizeof(T));
  const int64_t qSize = d.batch * d.queryLength * d.q.token, kSize = d.batch * d.keyLength * d.k.token;
  const std::vector<T> q = randomValues<T>(qSize, 1), k = randomValues<T>(kSize, 2), v = randomValues<T>(kSize, 3),
                       dO = randomValues<T>(qSize, 4);
  const std::vector<int64_t> keys{123456789, 987654321};
  AttentionDesc onHost = d;
  onHost.dropout.keys = keys.data();
  const std::vector<uint8_t> noMask(1);
  DeviceArray<uint8_t> deviceMask(mask.empty() ? noMask : mask);
  if (!mask.empty()) {
    onHost.mask.at = mask.data();
    d.mask.at = deviceMask;
  }
  const Doubles wideQ = widened(q), wideK = widened(k), wideV = widened(v), wideDO = widened(dO);
  Doubles o(wideQ.size()), lse(static_cast<size_t>(d.batch * d.heads * d.queryLength)), dq(o), dk(wideK.size()), dv(dk);
  reference::attentionForward(onHost, wideQ.data(), wideK.data(), wideV.data(), o.data(), lse.data());
  reference::attentionBackward(onHost, wideQ.data(), wideK.data(), wideV.data(), o.data(), lse.data(), wideDO.data(),
                               dq.data(), dk.data(), dv.data());

  DeviceArray<int64_t> deviceKeys(keys);
  d.dropout.keys = deviceKeys;
  DeviceArray<T> dQ(q), dK(k), dV(v), dDO(dO), gotO(qSize), gotDq(qSize), gotDk(kSize), gotDv(kSize);
  DeviceArray<float> gotLse(static_cast<int64_t>(lse.size())), workspace(static_cast<int64_t>(lse.size()));
  attentionForward<T>(nullptr, d, nullptr, dQ, dK, dV, gotO, gotLse);
  attentionBackward<T>(nullptr, d, nullptr, dQ, dK, dV, gotO, gotLse, dDO, gotDq, gotDk, gotDv, workspace);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  const double bound = tolerance * kEpsilon<T>;
  EXPECT_LT(relativeError(gotO.readDoubles(), o), bound);
  EXPECT_LT(relativeErrorOfLse(gotLse.readDoubles(), lse), 2e-6);
  EXPECT_LT(relativeError(gotDq.readDoubles(), dq), bound);
  EXPECT_LT(relativeError(gotDk.readDoubles(), dk), bound);
  EXPECT_LT(relativeError(gotDv.readDoubles(), dv), bound);
}

template <typename T> void expectAllShapes(double tolerance) {
  expectEqualsReference<T>(denseDesc(1, 64, 64, 1, 1, 64), tolerance);
  expectEqualsReference<T>(denseDesc(2, 70, 70, 2, 2, 64), tolerance);
  expectEqualsReference<T>(denseDesc(1, 33, 130, 4, 2, 32), tolerance);
  AttentionDesc open = denseDesc(1, 65, 129, 2, 1, 40);
  open.causal = false;
  expectEqualsReference<T>(open, tolerance);
}

TEST_F(Attention, EqualsTheReferenceInF32) { expectAllShapes<float>(40); }
TEST_F(Attention, EqualsTheReferenceInBf16OnTensorCores) { expectAllShapes<Bf16>(3); }
TEST_F(Attention, EqualsTheReferenceInF16OnTensorCores) { expectAllShapes<F16>(3); }

TEST_F(Attention, TakesHeadsOfUpTo128DimensionsOnTensorCores) {
  expectEqualsReference<Bf16>(denseDesc(1, 100, 100, 2, 1, 128), 3);
  expectEqualsReference<Bf16>(denseDesc(1, 40, 80, 1, 1, 96), 3);
}

TEST_F(Attention, TakesHeadsThatFitNoTile) {
  expectEqualsReference<Bf16>(denseDesc(1, 20, 20, 1, 1, 12), 3);
  expectEqualsReference<Bf16>(denseDesc(1, 10, 12, 1, 1, 256), 3);
  expectEqualsReference<float>(denseDesc(1, 10, 12, 2, 2, 256), 40);
  expectEqualsReference<float>(denseDesc(1, 45, 45, 1, 1, 7), 40);
}

TEST_F(Attention, DropsWhatTheReferenceDrops) {
  AttentionDesc d = denseDesc(2, 70, 70, 2, 2, 64);
  d.dropout.rate = 0.3;
  d.dropout.place = 16;
  expectEqualsReference<float>(d, 40);
  expectEqualsReference<Bf16>(d, 3);
}

// Blocks of several warps and tiles on either side of the diagonal, on it and beyond the last row, with an odd length
// of rows in the random stream, for each width of tiles, and keys that several query heads read.
TEST_F(Attention, DropsInWholeAndPartialTiles) {
  for (const int64_t headDim : {64, 128}) {
    AttentionDesc d = denseDesc(1, 133, 141, 2, 1, headDim);
    d.dropout.rate = 0.15;
    d.dropout.place = 8;
    expectEqualsReference<Bf16>(d, 3);
    d = denseDesc(1, 70, 75, 1, 1, headDim);
    d.causal = false;
    d.dropout.rate = 0.5;
    expectEqualsReference<F16>(d, 3);
  }
}

TEST_F(Attention, WalksOverManyTiles) {
  expectEqualsReference<F16>(denseDesc(1, 260, 260, 1, 1, 64), 3);
  expectEqualsReference<Bf16>(denseDesc(1, 100, 230, 2, 1, 128), 3);
  AttentionDesc open = denseDesc(1, 140, 128, 1, 1, 64);
  open.causal = false;
  expectEqualsReference<Bf16>(open, 3);
  open.headDim = 120;
  open.q = open.o = open.dq = open.dO = denseHeadStrides(140, 1, 120);
  open.k = open.v = open.dk = open.dv = denseHeadStrides(128, 1, 120);
  expectEqualsReference<F16>(open, 3);
}

// Maxima of rows grow by more than a factor of 2^8 from tile to tile, by less, and not at all.
TEST_F(Attention, FollowsMaximaThatGrow) {
  for (const double scale : {0.01, 1.0, 4.0}) {
    for (const int64_t headDim : {64, 128}) {
      AttentionDesc d = denseDesc(1, 140, 140, 1, 1, headDim);
      d.scale = scale;
      expectEqualsReference<F16>(d, 3);
    }
  }
}

TEST_F(Attention, TakesScalesThatAreNotPositive) {
  for (const double scale : {0.0, -0.3}) {
    AttentionDesc d = denseDesc(1, 70, 70, 1, 1, 64);
    d.scale = scale;
    expectEqualsReference<Bf16>(d, 3);
  }
}

// The first queries see no key: o and dq are 0, and lse is −∞.
TEST_F(Attention, TakesQueriesThatSeeNoKey) {
  for (const int64_t keys : {0, 5, 70}) {
    for (const double rate : {0.0, 0.25}) {
      AttentionDesc d = denseDesc(1, 150, keys, 2, 1, 64);
      d.dropout.rate = rate;
      expectEqualsReference<float>(d, 40);
      expectEqualsReference<Bf16>(d, 3);
      d = denseDesc(1, 150, keys, 2, 1, 128);
      d.dropout.rate = rate;
      expectEqualsReference<F16>(d, 3);
    }
  }
}

// Whether a dimension of the mask is the same for all or not, in types that run on tensor cores without one, too; some
// queries see no key at all.
TEST_F(Attention, MasksByATensor) {
  for (const bool causal : {true, false})
    for (int alike = 0; alike < 8; ++alike) {
      AttentionDesc d = denseDesc(2, 40, 45, 4, 2, 16);
      d.causal = causal;
      d.dropout.rate = alike == 0 ? 0.25 : 0.0;
      const int64_t shape[] = {alike & 1 ? 1 : 2, alike & 2 ? 1 : 4, alike & 4 ? 1 : 40, 45};
      const std::vector<float> chance = randomValues<float>(shape[0] * shape[1] * shape[2] * shape[3], 5);
      std::vector<uint8_t> mask(chance.size());
      for (size_t i = 0; i < mask.size(); ++i)
        mask[i] = chance[i] > 0 && i / 45 % 7 != 3;
      d.mask = denseAttentionMask(nullptr, shape);
      SCOPED_TRACE(testing::Message() << "alike " << alike);
      expectEqualsReference<float>(d, 40, mask);
      expectEqualsReference<Bf16>(d, 3, mask);
    }
}

// As a shard of the heads or of the samples computes them.
TEST_F(Attention, GivesAHeadAloneTheSameBits) {
  const int64_t batch = 2, heads = 2, length = 150, headDim = 64, size = batch * length * heads * headDim;
  const AttentionDesc whole = denseDesc(batch, length, length, heads, heads, headDim);
  AttentionDesc part = whole;
  part.batch = part.heads = part.kvHeads = 1;
  const int64_t first = whole.q.batch + whole.q.head, firstRow = 3 * length; // head 1 of sample 1
  DeviceArray<Bf16> q(randomValues<Bf16>(size, 1)), k(randomValues<Bf16>(size, 2)), v(randomValues<Bf16>(size, 3)),
      dO(randomValues<Bf16>(size, 4));
  std::vector<std::vector<Bf16>> results;
  for (const AttentionDesc &d : {whole, part}) {
    const int64_t at = d.batch == batch ? 0 : first, row = at == 0 ? 0 : firstRow;
    DeviceArray<Bf16> o(size), dq(size), dk(size), dv(size);
    DeviceArray<float> lse(4 * length), workspace(4 * length);
    attentionForward<Bf16>(nullptr, d, nullptr, q + at, k + at, v + at, o + at, lse + row);
    attentionBackward<Bf16>(nullptr, d, nullptr, q + at, k + at, v + at, o + at, lse + row, dO + at, dq + at, dk + at,
                            dv + at, workspace);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (const DeviceArray<Bf16> *array : {&o, &dq, &dk, &dv}) {
      const std::vector<Bf16> all = array->read();
      std::vector<Bf16> ofHead;
      for (int64_t i = 0; i < length; ++i)
        for (int64_t c = 0; c < headDim; ++c)
          ofHead.push_back(all[static_cast<size_t>(first + i * whole.q.token + c)]);
      results.push_back(ofHead);
    }
  }
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(sameBits(results[i], results[4 + i])) << i;
}

// Every tile of every head once, and of the heads that take part at once all tiles of one number before the next.
TEST(AttentionOrder, HasEachTileOfEachHeadOnce) {
  const int64_t megabyte = int64_t{1} << 20;
  for (const int64_t bytesOfHead : {int64_t{1000}, 3 * megabyte, 100 * megabyte}) {
    const attention::BlockOrder order(1000, 128, 13, bytesOfHead);
    ASSERT_EQ(order.blocks(), 8u * 13u);
    EXPECT_EQ(order.headsAtOnce, bytesOfHead == 1000 ? 13u : bytesOfHead == 3 * megabyte ? 6u : 1u);
    std::vector<int> count(order.blocks());
    int before = 0;
    for (unsigned block = 0; block < order.blocks(); ++block) {
      int tile = -1, head = -1;
      order.placeOf(block, tile, head);
      ASSERT_TRUE(tile >= 0 && tile < 8 && head >= 0 && head < 13);
      ++count[static_cast<size_t>(tile * 13 + head)];
      const bool isNewSection = block % (8 * order.headsAtOnce) == 0;
      EXPECT_TRUE(tile >= before || isNewSection);
      before = tile;
    }
    EXPECT_EQ(count, std::vector<int>(order.blocks(), 1));
  }
}

// q, k and v as slices of one projection, as GPT-2 has them.
TEST_F(Attention, ReadsSlicesOfOneProjection) {
  const int64_t length = 50, heads = 2, headDim = 16, width = 3 * heads * headDim;
  AttentionDesc d = denseDesc(1, length, length, heads, heads, headDim);
  d.q = d.k = d.v = d.dq = d.dk = d.dv = fusedQkvStrides(length, heads, headDim);
  const std::vector<Bf16> qkv = randomValues<Bf16>(length * width, 1), dO = randomValues<Bf16>(length * width / 3, 2);
  const Doubles wide = widened(qkv), wideDO = widened(dO);
  Doubles o(wideDO.size()), lse(static_cast<size_t>(heads * length)), dqkv(wide.size());
  const int64_t k = heads * headDim, v = 2 * k;
  reference::attentionForward(d, &wide[0], &wide[k], &wide[v], o.data(), lse.data());
  reference::attentionBackward(d, &wide[0], &wide[k], &wide[v], o.data(), lse.data(), wideDO.data(), &dqkv[0], &dqkv[k],
                               &dqkv[v]);
  DeviceArray<Bf16> x(qkv), gotO(static_cast<int64_t>(o.size())), dx(length * width), deviceDO(dO);
  DeviceArray<float> gotLse(heads * length), workspace(heads * length);
  attentionForward<Bf16>(nullptr, d, nullptr, x, x + k, x + v, gotO, gotLse);
  attentionBackward<Bf16>(nullptr, d, nullptr, x, x + k, x + v, gotO, gotLse, deviceDO, dx, dx + k, dx + v, workspace);
  EXPECT_LT(relativeError(gotO.readDoubles(), o), 3 * kEpsilon<Bf16>);
  EXPECT_LT(relativeError(dx.readDoubles(), dqkv), 3 * kEpsilon<Bf16>);
}

} // namespace
} // namespace hyc::kernels::cuda
