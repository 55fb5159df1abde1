// Products of 8-bit floats and delayed scaling.
#include "device_test.h"
#include "kernels/fp8_scale/cuda.h"
#include "kernels/gemm/cuda_fp8.h"
#include "kernels/gemm/reference.h"

namespace hyc::kernels::cuda {
namespace {

struct Float8 : CudaTest {};

// Sizes that the library takes and those that it does not; every way that operands lie.
template <typename A, typename B, typename C> void expectProduct(int64_t m, int64_t n, int64_t k, int64_t batch) {
  for (const bool transA : {false, true})
    for (const bool transB : {false, true})
      for (const double beta : {0.0, 1.0}) {
        GemmDesc d;
        d.m = m, d.n = n, d.k = k, d.batch = batch, d.transA = transA, d.transB = transB, d.beta = beta;
        d.lda = (transA ? m : k) + 16, d.ldb = (transB ? k : n) + 32;
        if (batch > 1)
          d.strideA = (transA ? k : m) * d.lda, d.strideB = (transB ? n : k) * d.ldb, d.strideC = m * n;
        const auto a = randomValues<A>(batch * (transA ? k : m) * d.lda, 1);
        const auto b = randomValues<B>(batch * (transB ? n : k) * d.ldb, 2);
        const auto c = randomValues<C>(batch * m * n, 3);
        DeviceArray<A> dA(a);
        DeviceArray<B> dB(b);
        DeviceArray<C> dC(c);
        DeviceArray<char> workspace(Float8Scratch(d).bytes);
        gemm(nullptr, d, dA.get(), dB.get(), nullptr, dC.get(), workspace.get());
        Doubles want = widened(c);
        const Doubles wideA = widened(a), wideB = widened(b);
        reference::gemm(d, wideA.data(), wideB.data(), static_cast<const double *>(nullptr), want.data());
        // Tensor cores keep fewer bits of a sum of 8-bit products than f32 has.
        EXPECT_LT(relativeError(dC.readDoubles(), want), sizeof(C) == 4 ? 2e-3 : kEpsilon<Bf16>)
            << m << " x " << n << " x " << k << " transposed " << transA << transB << " beta " << beta;
      }
}

TEST_F(Float8, ProductsAreThoseOfTheReference) {
  expectProduct<E4m3, E4m3, Bf16>(64, 48, 80, 1);
  expectProduct<E5m2, E4m3, Bf16>(33, 20, 45, 2);
  expectProduct<E4m3, E5m2, float>(48, 32, 64, 2);
  expectProduct<E4m3, E5m2, float>(5, 70, 31, 1);
}

TEST_F(Float8, AnEmptySumIsZero) {
  GemmDesc d;
  d.m = 3, d.n = 5, d.k = 0;
  DeviceArray<E4m3> a(int64_t{1}), b(int64_t{1});
  DeviceArray<float> c(int64_t{15});
  DeviceArray<char> workspace(Float8Scratch(d).bytes);
  gemm(nullptr, d, a.get(), b.get(), nullptr, c.get(), workspace.get());
  EXPECT_EQ(c.read(), std::vector<float>(15, 0.0f));
}

TEST_F(Float8, ScalesAreThoseOfTheHost) {
  const float amaxes[] = {1, 100, 0, INFINITY, 0.25f, 3};
  float scale = 1, inverse = 1, history[2] = {};
  DeviceArray<float> dScale(std::vector<float>{1}), dInverse(std::vector<float>{1}), dHistory(std::vector<float>{0, 0});
  for (float amax : amaxes) {
    DeviceArray<float> dAmax(std::vector<float>{amax});
    updateFp8Scale(nullptr, 448, 2, dAmax, dScale, dInverse, dHistory);
    kernels::updateFp8Scale(448, 2, amax, &scale, &inverse, history);
    EXPECT_EQ(dScale.read()[0], scale);
    EXPECT_EQ(dInverse.read()[0], inverse);
    EXPECT_EQ(dHistory.read(), std::vector<float>(history, history + 2));
  }
}

TEST_F(Float8, MaximaAccumulate) {
  DeviceArray<float> to(std::vector<float>{NAN});
  const auto add = [&](float value, WriteMode mode) {
    DeviceArray<float> from(std::vector<float>{value});
    accumulateMax(nullptr, to, from, mode);
    return to.read()[0];
  };
  EXPECT_EQ(add(2, WriteMode::kOverwrite), 2);
  EXPECT_EQ(add(1, WriteMode::kAccumulate), 2);
  EXPECT_EQ(add(3, WriteMode::kAccumulate), 3);
  EXPECT_TRUE(std::isnan(add(NAN, WriteMode::kAccumulate)));
  EXPECT_TRUE(std::isnan(add(5, WriteMode::kAccumulate)));
}

} // namespace
} // namespace hyc::kernels::cuda
