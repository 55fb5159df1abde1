// Kernels without products give the same bits on every instruction set; products do on those with multiply-add.
#include "kernel_test.h"
#include "kernels/adamw/cpu.h"
#include "kernels/attention/op.h"
#include "kernels/cross_entropy/op.h"
#include "kernels/gemm/cpu.h"
#include "kernels/group_norm/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/layer_norm/op.h"
#include "kernels/rms_norm/op.h"
#include "kernels/rope/op.h"

#if defined(__x86_64__)
#define HYC_DECLARE_KERNELS(isa)                                                                                      \
  namespace isa {                                                                                                     \
  template <typename T>                                                                                               \
  void adamwWithFactors(const AdamWFactors<float> &, int64_t, float *, const T *, float *, float *);                  \
  template <typename T>                                                                                               \
  void layerNormForward(const LayerNormDesc &, const T *, const float *, const float *, T *, float *, float *);       \
  template <typename T>                                                                                               \
  void groupNormForward(const GroupNormDesc &, const T *, const float *, const float *, T *, float *, float *);       \
  template <typename T>                                                                                               \
  void rmsNormForward(const RmsNormDesc &, const T *, const float *, T *, float *);                                   \
  template <typename T>                                                                                               \
  void rope(const RopeDesc &, const T *, const float *, const float *, T *);                                          \
  template <typename T>                                                                                               \
  void crossEntropyForward(const CrossEntropyDesc &, const T *, const int64_t *, float *, float *, float *,           \
                           int64_t *);                                                                                \
  void gemmWithScratch(const GemmDesc &, const float *, const float *, const float *, const float *, float *,         \
                       float *);                                                                                      \
  template <typename T>                                                                                               \
  void attentionForward(const AttentionDesc &, const T *, const T *, const T *, T *, float *);                        \
  template <typename T>                                                                                               \
  void attentionBackward(const AttentionDesc &, const T *, const T *, const T *, const T *, const float *, const T *, \
                         T *, T *, T *, void *);                                                                      \
  }

namespace hyc::kernels {
HYC_DECLARE_KERNELS(generic)
HYC_DECLARE_KERNELS(avx2)
HYC_DECLARE_KERNELS(avx512)

namespace {

// Of one instruction set, over activations of T.
template <typename T>
struct Kernels {
  decltype(&generic::adamwWithFactors<T>) adamw;
  decltype(&generic::layerNormForward<T>) layerNorm;
  decltype(&generic::groupNormForward<T>) groupNorm;
  decltype(&generic::rmsNormForward<T>) rmsNorm;
  decltype(&generic::rope<T>) rope;
  decltype(&generic::crossEntropyForward<T>) crossEntropy;
  decltype(&generic::gemmWithScratch) gemm;
  decltype(&generic::attentionForward<T>) attention;
  decltype(&generic::attentionBackward<T>) attentionBackward;
};
#define HYC_KERNELS_OF(isa, T)                                                                            \
  Kernels<T> {                                                                                            \
    isa::adamwWithFactors<T>, isa::layerNormForward<T>, isa::groupNormForward<T>, isa::rmsNormForward<T>, \
        isa::rope<T>, isa::crossEntropyForward<T>, isa::gemmWithScratch, isa::attentionForward<T>,        \
        isa::attentionBackward<T>                                                                         \
  }

template <typename T>
std::vector<T> randomOf(int64_t n, unsigned seed) {
  std::vector<T> result;
  for (float x : randomFloats(n, seed)) result.push_back(T(x));
  return result;
}

template <typename T>
Floats withoutProducts(const Kernels<T> &k) {
  Floats result;
  const auto append = [&](const auto &x) { result.insert(result.end(), x.begin(), x.end()); };
  Floats param = randomFloats(1000, 1), m = randomFloats(1000, 2), v(1000, 0.3f);
  const std::vector<T> x = randomOf<T>(9 * 111, 3);
  k.adamw(AdamWFactors<float>(AdamWParams{}), 999, param.data(), x.data(), m.data(), v.data());
  append(param);
  std::vector<T> y(x.size());
  Floats mean(9), rstd(9);
  k.layerNorm({9, 111, 1e-5}, x.data(), nullptr, nullptr, y.data(), mean.data(), rstd.data());
  append(y);
  const Floats scale = randomFloats(111, 4);
  const Floats bias = randomFloats(3, 12);
  k.groupNorm({9, 1, 3, 37, 1e-5}, x.data(), scale.data(), bias.data(), y.data(), mean.data(), rstd.data());
  append(y);
  k.rmsNorm({9, 111, 1e-5}, x.data(), scale.data(), y.data(), rstd.data());
  append(y);
  k.rope({1, 9, 3, 37, 18}, x.data(), randomFloats(9 * 18, 5).data(), randomFloats(9 * 18, 6).data(), y.data());
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

template <typename T>
Floats products(const Kernels<T> &k) {
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
  const std::vector<T> q = randomOf<T>(n, 3), key = randomOf<T>(n, 4), v = randomOf<T>(n, 5), dO = randomOf<T>(n, 6);
  std::vector<T> o(n), dq(n), dk(n), dv(n);
  Floats lse(103 * 2);
  k.attention(d, q.data(), key.data(), v.data(), o.data(), lse.data());
  k.attentionBackward(d, q.data(), key.data(), v.data(), o.data(), lse.data(), dO.data(), dq.data(), dk.data(),
                      dv.data(), nullptr);
  c.insert(c.end(), lse.begin(), lse.end());
  for (const std::vector<T> *part : {&o, &dq, &dk, &dv}) c.insert(c.end(), part->begin(), part->end());
  return c;
}

TEST(Isa, GenericAndAvx2GiveTheSameBitsWithoutProducts) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "this CPU has no AVX2";
  EXPECT_TRUE(sameBits(withoutProducts(HYC_KERNELS_OF(generic, float)), withoutProducts(HYC_KERNELS_OF(avx2, float))));
  EXPECT_TRUE(sameBits(withoutProducts(HYC_KERNELS_OF(generic, Bf16)), withoutProducts(HYC_KERNELS_OF(avx2, Bf16))));
  EXPECT_TRUE(sameBits(withoutProducts(HYC_KERNELS_OF(generic, F16)), withoutProducts(HYC_KERNELS_OF(avx2, F16))));
}

TEST(Isa, Avx2AndAvx512GiveTheSameBits) {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq"))
    GTEST_SKIP() << "this CPU has no AVX-512";
  EXPECT_TRUE(sameBits(withoutProducts(HYC_KERNELS_OF(avx2, float)), withoutProducts(HYC_KERNELS_OF(avx512, float))));
  EXPECT_TRUE(sameBits(withoutProducts(HYC_KERNELS_OF(avx2, Bf16)), withoutProducts(HYC_KERNELS_OF(avx512, Bf16))));
  EXPECT_TRUE(sameBits(withoutProducts(HYC_KERNELS_OF(avx2, F16)), withoutProducts(HYC_KERNELS_OF(avx512, F16))));
  EXPECT_TRUE(sameBits(products(HYC_KERNELS_OF(avx2, float)), products(HYC_KERNELS_OF(avx512, float))));
  EXPECT_TRUE(sameBits(products(HYC_KERNELS_OF(avx2, Bf16)), products(HYC_KERNELS_OF(avx512, Bf16))));
}

}  // namespace
}  // namespace hyc::kernels
#endif  // __x86_64__
