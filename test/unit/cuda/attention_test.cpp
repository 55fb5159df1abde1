#include "device_test.h"
#include "kernels/attention/cuda.h"
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

// Forward and backward of T against the reference in f64 over the same numbers. `tolerance` counts roundings of T.
template <typename T> void expectEqualsReference(const AttentionDesc &asked, double tolerance) {
  AttentionDesc d = asked;
  SCOPED_TRACE(testing::Message() << "B " << d.batch << " Sq " << d.queryLength << " Sk " << d.keyLength << " H "
                                  << d.heads << "/" << d.kvHeads << " D " << d.headDim << " causal " << d.causal
                                  << " dropout " << d.dropout.rate << " bytes " << sizeof(T));
  const int64_t qSize = d.batch * d.queryLength * d.q.token, kSize = d.batch * d.keyLength * d.k.token;
  const std::vector<T> q = randomValues<T>(qSize, 1), k = randomValues<T>(kSize, 2), v = randomValues<T>(kSize, 3),
                       dO = randomValues<T>(qSize, 4);
  const std::vector<int64_t> keys{123456789, 987654321};
  AttentionDesc onHost = d;
  onHost.dropout.keys = keys.data();
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
  EXPECT_LT(relativeError(gotLse.readDoubles(), lse), 2e-6);
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
