// Kernels without products give the same bits on every instruction set; products do on those with multiply-add.
#include "kernel_test.h"
#include "kernels/adamw/cpu.h"
#include "kernels/attention/op.h"
#include "kernels/cross_entropy/op.h"
#include "kernels/gemm/cpu.h"
#include "kernels/isa/dispatch.h"
#include "kernels/layer_norm/op.h"

#if defined(__x86_64__)
#define HYC_DECLARE_KERNELS(isa)                                                                                \
  namespace isa {                                                                                               \
  void adamwWithFactors(const AdamWFactors<float> &, int64_t, float *, const float *, float *, float *);        \
  void layerNormForward(const LayerNormDesc &, const float *, const float *, const float *, float *, float *,   \
                        float *);                                                                               \
  void crossEntropyForward(const CrossEntropyDesc &, const float *, const int64_t *, float *, float *, float *, \
                           int64_t *);                                                                          \
  void gemmWithScratch(const GemmDesc &, const float *, const float *, const float *, const float *, float *,   \
                       float *);                                                                                \
  void attentionForward(const AttentionDesc &, const float *, const float *, const float *, float *, float *);  \
  void attentionBackward(const AttentionDesc &, const float *, const float *, const float *, const float *,     \
                         const float *, const float *, float *, float *, float *);                              \
  }

namespace hyc::kernels {
HYC_DECLARE_KERNELS(generic)
HYC_DECLARE_KERNELS(avx2)
HYC_DECLARE_KERNELS(avx512)

namespace {

struct Kernels {
  decltype(&generic::adamwWithFactors) adamw;
  decltype(&generic::layerNormForward) layerNorm;
  decltype(&generic::crossEntropyForward) crossEntropy;
  decltype(&generic::gemmWithScratch) gemm;
  decltype(&generic::attentionForward) attention;
  decltype(&generic::attentionBackward) attentionBackward;
};
#define HYC_KERNELS_OF(isa)                                                                       \
  Kernels {                                                                                       \
    isa::adamwWithFactors, isa::layerNormForward, isa::crossEntropyForward, isa::gemmWithScratch, \
        isa::attentionForward, isa::attentionBackward                                             \
  }

Floats withoutProducts(const Kernels &k) {
  Floats result;
  const auto append = [&](const Floats &x) { result.insert(result.end(), x.begin(), x.end()); };
  Floats param = randomFloats(1000, 1), m = randomFloats(1000, 2), v(1000, 0.3f);
  const Floats x = randomFloats(9 * 111, 3);
  k.adamw(AdamWFactors<float>(AdamWParams{}), 999, param.data(), x.data(), m.data(), v.data());
  append(param);
  Floats y(x.size()), mean(9), rstd(9);
  k.layerNorm({9, 111, 1e-5}, x.data(), nullptr, nullptr, y.data(), mean.data(), rstd.data());
  append(y);
  CrossEntropyDesc d;
  d.tokens = 9;
  d.localVocab = 111;
  const std::vector<int64_t> labels(9, 5);
  Floats lse(9), picked(9);
  float lossSum;
  int64_t count;
  k.crossEntropy(d, x.data(), labels.data(), lse.data(), picked.data(), &lossSum, &count);
  append(lse);
  return result;
}

Floats products(const Kernels &k) {
  GemmDesc g;
  g.m = 45;
  g.n = 37;
  g.k = 300;
  const Floats a = randomFloats(g.m * g.k, 1), b = randomFloats(g.k * g.n, 2);
  Floats c(g.m * g.n), scratch(gemmWorkspaceBytes(g, omp_get_max_threads()) / sizeof(float));
  k.gemm(g, a.data(), b.data(), nullptr, nullptr, c.data(), scratch.data());
  AttentionDesc d;
  d.batch = 1;
  d.queryLength = d.keyLength = 103;
  d.heads = d.kvHeads = 2;
  d.headDim = 24;
  d.causal = true;
  d.scale = 0.2;
  d.q = d.k = d.v = d.o = d.dq = d.dk = d.dv = d.dO = denseHeadStrides(103, 2, 24);
  const int64_t n = 103 * 2 * 24;
  const Floats q = randomFloats(n, 3), key = randomFloats(n, 4), v = randomFloats(n, 5), dO = randomFloats(n, 6);
  Floats o(n), lse(103 * 2), dq(n), dk(n), dv(n);
  k.attention(d, q.data(), key.data(), v.data(), o.data(), lse.data());
  k.attentionBackward(d, q.data(), key.data(), v.data(), o.data(), lse.data(), dO.data(), dq.data(), dk.data(),
                      dv.data());
  for (const Floats *part : {&o, &lse, &dq, &dk, &dv}) c.insert(c.end(), part->begin(), part->end());
  return c;
}

TEST(Isa, GenericAndAvx2GiveTheSameBitsWithoutProducts) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "this CPU has no AVX2";
  EXPECT_TRUE(sameBits(withoutProducts(HYC_KERNELS_OF(generic)), withoutProducts(HYC_KERNELS_OF(avx2))));
}

TEST(Isa, Avx2AndAvx512GiveTheSameBits) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq"))
    GTEST_SKIP() << "this CPU has no AVX-512";
  EXPECT_TRUE(sameBits(withoutProducts(HYC_KERNELS_OF(avx2)), withoutProducts(HYC_KERNELS_OF(avx512))));
  EXPECT_TRUE(sameBits(products(HYC_KERNELS_OF(avx2)), products(HYC_KERNELS_OF(avx512))));
}

}  // namespace
}  // namespace hyc::kernels
#endif  // __x86_64__
