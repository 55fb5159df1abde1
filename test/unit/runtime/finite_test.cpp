// checkFinite: which values end a run, which are meant, and what is told of them.
#include "hycrt/finite.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/narrow_float.h"

namespace hycrt {
namespace {

using hyc::kernels::Bf16;
using hyc::kernels::F16;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Site kSite = {"backward", "h.0.mlp.c_fc"};

template <typename T>
constexpr DType kTypeOf = DType::kF32;
template <>
constexpr DType kTypeOf<double> = DType::kF64;
template <>
constexpr DType kTypeOf<Bf16> = DType::kBF16;
template <>
constexpr DType kTypeOf<F16> = DType::kF16;

template <typename T>
CheckedValues all(const std::vector<T>& values) {
  return {values.data(), kTypeOf<T>, static_cast<int64_t>(values.size())};
}

class FiniteTest : public testing::Test {
 protected:
  std::string message(std::initializer_list<CheckedValues> outs, std::initializer_list<CheckedValues> ins,
                      Infinities infinities = Infinities::kErrors) {
    Context ctx(program, {}, arenas.data(), nullptr);
    ctx.setStep(16);
    checkFinite(ctx, {0, 1, 0, false}, kSite, outs, ins, infinities);
    EXPECT_TRUE(ctx.status().ok() || ctx.status().exitCode() == 65);
    return ctx.status().ok() ? "" : ctx.status().message();
  }

  std::vector<float> weights = std::vector<float>(6);
  std::array<std::byte*, 1> arenas = {reinterpret_cast<std::byte*>(weights.data())};
  StateDesc state = {"wte.weight", "parameter", DType::kF32, {0, 0}, {6}, {6}, {6}, {}, Initializer::zeros()};
  Program program = [this] {
    Program result{};
    result.batch = {1, 4, 8};
    result.states.rows = &state;
    result.states.size = 1;
    return result;
  }();
};

template <typename T>
class EveryType : public FiniteTest {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(EveryType, Types);

// On both sides of a block's border and beyond what one thread looks at.
TYPED_TEST(EveryType, FindsTheFirstNanWhereverItIs) {
  using T = TypeParam;
  for (int64_t size : {int64_t{1}, int64_t{4095}, int64_t{4097}, int64_t{300001}}) {
    std::vector<T> values(static_cast<size_t>(size), T(std::is_same_v<T, F16> ? 65504.0f : 3.0e38f));
    EXPECT_EQ(this->message({all(values)}, {}), "");
    for (int64_t at : {int64_t{0}, size / 2, size - 1}) {
      std::vector<T> broken = values;
      broken[static_cast<size_t>(at)] = T(kNan);
      broken.back() = T(kNan);
      EXPECT_NE(this->message({all(broken)}, {}).find("makes a NaN (element " + std::to_string(at) + " of "),
                std::string::npos)
          << this->message({all(broken)}, {});
      broken = values;
      broken[static_cast<size_t>(at)] = T(-kInfinity);
      EXPECT_NE(this->message({all(broken)}, {}).find("makes an infinity (element " + std::to_string(at) + " of "),
                std::string::npos);
    }
  }
}

TEST_F(FiniteTest, TellsStepMicroBatchFunctionAndOp) {
  const std::vector<float> values = {1, kNan};
  EXPECT_EQ(message({all(values)}, {}).rfind("step 17, micro-batch 2 of 4, backward: h.0.mlp.c_fc makes a NaN", 0), 0u);
}

TEST_F(FiniteTest, ANanThatIsReadIsNotTheOpsFault) {
  weights[3] = kNan;
  const std::vector<float> values = {kNan, kNan};
  EXPECT_NE(message({all(values)}, {all(weights)}).find("reads a NaN of parameter wte.weight (element 3 of 6)"),
            std::string::npos);
  const std::vector<float> other = {1, kNan};
  EXPECT_NE(message({all(values)}, {all(other)}).find("reads a NaN (element 1 of 2)"), std::string::npos);
}

TEST_F(FiniteTest, AnInfinityMayBeMeantAndGoesOn) {
  const std::vector<float> masked = {1, -kInfinity}, finite = {1, 2};
  EXPECT_EQ(message({all(masked)}, {all(finite)}, Infinities::kAllowed), "");
  const std::vector<float> scaled = {2, -kInfinity};
  EXPECT_EQ(message({all(scaled)}, {all(masked)}), "");
  EXPECT_NE(message({all(masked)}, {all(finite)}), "");
  // Infinity less infinity.
  const std::vector<float> nan = {kNan};
  EXPECT_NE(message({all(nan)}, {all(masked)}, Infinities::kAllowed), "");
}

TEST_F(FiniteTest, RemembersAnInfinityThatWasOverwritten) {
  Context ctx(program, {}, arenas.data(), nullptr);
  std::vector<float> values = {1, -kInfinity};
  const auto check = [&](Infinities infinities) {
    checkFinite(ctx, {}, kSite, {all(values)}, {all(values)}, infinities);
    return ctx.status().ok();
  };
  EXPECT_TRUE(check(Infinities::kAllowed));
  values[1] *= 2;  // in place
  EXPECT_TRUE(check(Infinities::kErrors));
  values[1] = 3;
  EXPECT_TRUE(check(Infinities::kErrors));
  values[1] = kInfinity;
  EXPECT_FALSE(check(Infinities::kErrors));
}

TEST_F(FiniteTest, LooksOnlyAtTheElementsOfAStridedView) {
  std::vector<float> values(24, kNan);  // 2 × 3 of 4 × 6
  const CheckedValues view = {values.data() + 1, DType::kF32, 6, {2, 3}, {12, 2}};
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) values[static_cast<size_t>(1 + i * 12 + j * 2)] = 1;
  }
  EXPECT_EQ(message({view}, {}), "");
  values[1 + 12 + 2] = kNan;
  EXPECT_NE(message({view}, {}).find("element 4 of 6"), std::string::npos);
}

TEST_F(FiniteTest, SaysNothingOnceTheRunHasFailed) {
  Context ctx(program, {}, arenas.data(), nullptr);
  ctx.fail(dataError("before"));
  const std::vector<float> nan = {kNan};
  checkFinite(ctx, {}, kSite, {all(nan)}, {});
  EXPECT_EQ(ctx.status().message(), "before");
}

}  // namespace
}  // namespace hycrt
