// Optimizers, sums of squares, and the single numbers of an update.
#include "device_test.h"
#include "kernels/adamw/cuda.h"
#include "kernels/adamw/reference.h"
#include "kernels/exact_sum/digits.h"
#include "kernels/exact_sum/reference.h"
#include "kernels/gradient_scale/cuda.h"
#include "kernels/lamb/cuda.h"
#include "kernels/lamb/reference.h"
#include "kernels/lion/cuda.h"
#include "kernels/lion/reference.h"
#include "kernels/loss_scale/op.h"
#include "kernels/sgd/cuda.h"
#include "kernels/sgd/reference.h"
#include "kernels/sum_of_squares/cuda.h"
#include "kernels/sum_of_squares/reference.h"

namespace hyc::kernels::cuda {
namespace {

struct Update : CudaTest {};
struct SumOfSquares : CudaTest {};
struct Scalars : CudaTest {};

constexpr float kLr = 0.25f, kScale = 0.125f;
constexpr int64_t kStep = 3;

// One optimizer's tensors on both sides; the references for float have the bits of the contract.
struct Tensors {
  explicit Tensors(int64_t n)
      : param(randomValues<float>(n, 1)), m(randomValues<float>(n, 2)), v(randomValues<float>(n, 3)) {
    for (float &value : v)
      value = std::fabs(value);
  }
  std::vector<float> param, m, v;
};

template <typename T> std::vector<float> inF32(const std::vector<T> &values) {
  return std::vector<float>(values.begin(), values.end());
}

template <typename T, typename R = T> void expectAdamW(const AdamWParams &given, const std::vector<int64_t> &sizes) {
  AdamWParams params = given;
  params.lr = kLr, params.step = kStep, params.gradScale = kScale;
  DeviceArray<float> lr(std::vector<float>{kLr}), scale(std::vector<float>{kScale});
  DeviceArray<int64_t> step(std::vector<int64_t>{kStep});
  DeviceArray<double> beta1(std::vector<double>{0.8});
  params.beta1 = 0.8;
  std::vector<std::unique_ptr<DeviceArray<float>>> device;
  std::vector<std::unique_ptr<DeviceArray<T>>> narrow;
  std::vector<std::unique_ptr<DeviceArray<R>>> copies;
  std::vector<AdamWTensor<T, R>> tensors;
  std::vector<Tensors> want;
  const auto put = [&](const std::vector<float> &x) {
    return device.emplace_back(std::make_unique<DeviceArray<float>>(x))->get();
  };
  for (int64_t n : sizes) {
    Tensors t(n);
    const auto grad = randomValues<T>(n, 4);
    T *dGrad = narrow.emplace_back(std::make_unique<DeviceArray<T>>(grad))->get();
    R *rounded = copies.emplace_back(std::make_unique<DeviceArray<R>>(n))->get();
    tensors.push_back({n, put(t.param), dGrad, put(t.m), put(t.v), rounded});
    reference::adamw(params, n, t.param.data(), inF32(grad).data(), t.m.data(), t.v.data());
    want.push_back(t);
  }
  const AdamWScalars scalars{lr, step, scale, beta1, nullptr};
  adamw<T, R>(nullptr, given, scalars, tensors.data(), static_cast<int>(tensors.size()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "tensor of " << sizes[i]);
    const std::vector<float> got = device[3 * i]->read();
    EXPECT_TRUE(sameBits(device[3 * i + 1]->read(), want[i].m));
    EXPECT_TRUE(sameBits(device[3 * i + 2]->read(), want[i].v));
    EXPECT_LT(relativeError(widened(got), widened(want[i].param)), 1e-6); // pow may differ in its last bit
    const std::vector<R> rounded = copies[i]->read();
    for (size_t j = 0; j < got.size(); ++j)
      ASSERT_EQ(static_cast<float>(rounded[j]), static_cast<float>(R(got[j])));
  }
}

TEST_F(Update, AdamWEqualsTheReferenceForManyTensorsAtOnce) {
  AdamWParams params;
  params.weightDecay = 0.1;
  expectAdamW<float>(params, {1, 5000, 4096, 3, 1024});
  expectAdamW<float, Bf16>(params, {100, 4097});
  expectAdamW<Bf16>(params, std::vector<int64_t>(70, 37));
  params.decay = DecayKind::kAddedToGradient;
  expectAdamW<F16>(params, {777, 8});
}

TEST_F(Update, NothingIsUpdatedWhereThePredicateSaysSo) {
  const std::vector<float> before = randomValues<float>(100, 1);
  DeviceArray<float> param(before), m(before), v(before), grad(before), lr(std::vector<float>{1}),
      scale(std::vector<float>{1});
  DeviceArray<int64_t> step(std::vector<int64_t>{1});
  DeviceArray<uint8_t> no(std::vector<uint8_t>{0});
  const AdamWTensor<float> tensor{100, param, grad, m, v, nullptr};
  adamw<float, float>(nullptr, {}, {lr, step, scale, nullptr, no}, &tensor, 1);
  sgd<float>(nullptr, {}, lr, scale, no, 100, param, grad, nullptr);
  lion<float>(nullptr, {}, {lr, scale, nullptr, no}, 100, param, grad, m);
  EXPECT_TRUE(sameBits(param.read(), before));
  EXPECT_TRUE(sameBits(m.read(), before));
}

TEST_F(Update, SgdHasTheReferencesBits) {
  for (const double momentum : {0.0, 0.9}) {
    SgdParams params;
    params.lr = kLr, params.gradScale = kScale, params.momentum = momentum, params.weightDecay = 0.01, params.step = 2;
    Tensors t(1001);
    const auto grad = randomValues<Bf16>(1001, 5);
    DeviceArray<float> lr(std::vector<float>{kLr}), scale(std::vector<float>{kScale}), param(t.param), buffer(t.m);
    DeviceArray<Bf16> dGrad(grad);
    sgd<Bf16>(nullptr, params, lr, scale, nullptr, 1001, param, dGrad, momentum != 0 ? buffer.get() : nullptr);
    reference::sgd(params, 1001, t.param.data(), inF32(grad).data(), momentum != 0 ? t.m.data() : nullptr);
    EXPECT_TRUE(sameBits(param.read(), t.param));
    EXPECT_TRUE(sameBits(buffer.read(), t.m));
  }
}

TEST_F(Update, LionHasTheReferencesBits) {
  LionParams params;
  params.lr = kLr, params.gradScale = kScale, params.weightDecay = 0.1;
  Tensors t(999);
  const auto grad = randomValues<float>(999, 5);
  DeviceArray<float> lr(std::vector<float>{kLr}), scale(std::vector<float>{kScale}), param(t.param), m(t.m),
      dGrad(grad);
  lion<float>(nullptr, params, {lr, scale, nullptr, nullptr}, 999, param, dGrad, m);
  reference::lion(params, 999, t.param.data(), grad.data(), t.m.data());
  EXPECT_TRUE(sameBits(param.read(), t.param));
  EXPECT_TRUE(sameBits(m.read(), t.m));
}

TEST_F(Update, LambEqualsTheReference) {
  LambParams params;
  params.step = kStep, params.gradScale = kScale, params.weightDecay = 0.1;
  Tensors t(513);
  std::vector<float> grad = randomValues<float>(513, 5);
  DeviceArray<float> scale(std::vector<float>{kScale}), lr(std::vector<float>{kLr}), param(t.param), m(t.m), v(t.v),
      dGrad(grad);
  DeviceArray<int64_t> step(std::vector<int64_t>{kStep});
  DeviceArray<double> squares(std::vector<double>{9.0}), direction(std::vector<double>{4.0}), ratio(1);
  lambDirection<float>(nullptr, params, {step, scale, nullptr, nullptr}, 513, param, dGrad, m, v);
  trustRatio(nullptr, {}, squares, direction, ratio);
  lambUpdate<float>(nullptr, lr, ratio, nullptr, 513, param, dGrad);
  reference::lambDirection(params, 513, t.param.data(), grad.data(), t.m.data(), t.v.data());
  reference::lambUpdate(kLr * kernels::trustRatio({}, 9.0, 4.0), 513, t.param.data(), grad.data());
  EXPECT_EQ(ratio.read()[0], 1.5);
  EXPECT_TRUE(sameBits(m.read(), t.m));
  EXPECT_TRUE(sameBits(v.read(), t.v));
  EXPECT_LT(relativeError(dGrad.readDoubles(), widened(grad)), 1e-6);
  EXPECT_LT(relativeError(param.readDoubles(), widened(t.param)), 1e-6);
}

template <typename T> void expectSumOfSquares(int64_t n, WriteMode mode) {
  const auto x = randomValues<T>(n, 1);
  const std::vector<float> wide = inF32(x);
  std::vector<int64_t> want(kExactSumLimbs, 0);
  const double first = 1.5;
  if (mode == WriteMode::kAccumulate)
    reference::addExact(want.data(), &first, 1);
  DeviceArray<int64_t> sum(want);
  DeviceArray<T> dX(x);
  DeviceArray<double> rounded(1);
  reference::addSumOfSquares(wide.data(), n, want.data());
  sumOfSquares<T>(nullptr, dX, n, sum, mode);
  roundExactSum(nullptr, sum, rounded);
  EXPECT_EQ(rounded.read()[0], reference::roundExactSum(want.data())) << n << " elements";
}

TEST_F(SumOfSquares, IsExactAtAnySize) {
  expectSumOfSquares<float>(1, WriteMode::kOverwrite);
  expectSumOfSquares<float>(1024 * 40 + 17, WriteMode::kAccumulate);
  expectSumOfSquares<Bf16>(5000, WriteMode::kOverwrite);
  expectSumOfSquares<F16>(1023, WriteMode::kAccumulate);
}

TEST_F(SumOfSquares, IsThatOfManyTensorsInOneCall) {
  std::vector<std::unique_ptr<DeviceArray<Bf16>>> device;
  std::vector<SquaredTensor<Bf16>> tensors;
  std::vector<int64_t> want(kExactSumLimbs, 0);
  for (int64_t i = 0; i < kSquaredTensorsAtOnce + 9; ++i) {
    const int64_t n = i == 3 ? 0 : i == 5 ? 150001 : 37 * i % 2000 + 1;
    const auto x = randomValues<Bf16>(n, static_cast<unsigned>(i));
    reference::addSumOfSquares(inF32(x).data(), n, want.data());
    tensors.push_back({device.emplace_back(std::make_unique<DeviceArray<Bf16>>(x))->get(), n});
  }
  DeviceArray<int64_t> sum(kExactSumLimbs);
  DeviceArray<double> rounded(1);
  sumOfSquares<Bf16>(nullptr, tensors.data(), static_cast<int>(tensors.size()), sum, WriteMode::kOverwrite);
  roundExactSum(nullptr, sum, rounded);
  EXPECT_EQ(rounded.read()[0], reference::roundExactSum(want.data()));
}

// Digits as 2^31 − 1 − 40 blocks leave them that all add the most there is: 40 more still fit.
TEST_F(SumOfSquares, LosesNothingBeforeTwoToTheThirtyOneBlocksHaveMet) {
  const int64_t most = (int64_t{1} << 32) - 1, blocks = (int64_t{1} << 31) - 1 - 40;
  std::vector<int64_t> want(kExactSumLimbs, 0);
  for (int i = 0; i + 4 < kExactSumDigits; ++i)
    want[static_cast<size_t>(i)] = blocks * most;
  const auto x = randomValues<float>(40 * 1024, 7);
  DeviceArray<float> dX(x);
  DeviceArray<int64_t> sum(want);
  DeviceArray<double> rounded(1);
  for (int64_t block = 0; block < 40; ++block) {
    const double square = reference::sumOfSquaresOfBlock(x.data() + block * 1024, 1024);
    splitExact(square, [&](int limb, int64_t term) { want[static_cast<size_t>(limb)] += term; });
  }
  sumOfSquares<float>(nullptr, dX, 40 * 1024, sum, WriteMode::kAccumulate);
  EXPECT_EQ(sum.read(), want);
  roundExactSum(nullptr, sum, rounded);
  EXPECT_EQ(rounded.read()[0], reference::roundExactSum(want.data()));
}

TEST_F(SumOfSquares, KeepsNaNAndInfinity) {
  DeviceArray<float> x(std::vector<float>{1, INFINITY}), y(std::vector<float>{INFINITY, NAN});
  DeviceArray<int64_t> sum(kExactSumLimbs);
  DeviceArray<double> rounded(1);
  sumOfSquares<float>(nullptr, x, 2, sum, WriteMode::kOverwrite);
  roundExactSum(nullptr, sum, rounded);
  EXPECT_EQ(rounded.read()[0], INFINITY);
  sumOfSquares<float>(nullptr, y, 2, sum, WriteMode::kAccumulate);
  roundExactSum(nullptr, sum, rounded);
  EXPECT_TRUE(std::isnan(rounded.read()[0]));
}

TEST_F(Scalars, AreThoseOfTheHost) {
  float scale = 0, norm = 0;
  kernels::gradientScale(50.0, 10, 0.5, &scale, &norm, 8.0 / 2.0);
  DeviceArray<double> squares(std::vector<double>{50.0});
  DeviceArray<int64_t> count(std::vector<int64_t>{10});
  DeviceArray<float> gotScale(1), gotNorm(1), lossScale(std::vector<float>{8});
  gradientScale(nullptr, squares, count, 0.5, gotScale, gotNorm, lossScale, 2.0);
  EXPECT_EQ(gotScale.read()[0], scale);
  EXPECT_EQ(gotNorm.read()[0], norm);

  DeviceArray<uint8_t> yes(std::vector<uint8_t>{1}), no(std::vector<uint8_t>{0});
  increment(nullptr, count);
  increment(nullptr, count, yes);
  increment(nullptr, count, no);
  EXPECT_EQ(count.read()[0], 12);

  const LossScaleRules rules{2, 1, 1, false};
  DeviceArray<int64_t> good(std::vector<int64_t>{1}), left(std::vector<int64_t>{1});
  updateLossScale(nullptr, rules, lossScale, good, left, yes);
  EXPECT_EQ(lossScale.read()[0], 16.0f);
  updateLossScale(nullptr, rules, lossScale, good, left, no);
  EXPECT_EQ(lossScale.read()[0], 8.0f);
  EXPECT_EQ(good.read()[0], 0);
}

} // namespace
} // namespace hyc::kernels::cuda
