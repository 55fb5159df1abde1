// Cross entropy against PyTorch (torch.nn.functional.cross_entropy, reduction "sum", f64), and its pieces against
// itself.
#include "InterpreterTesting.h"

#include <limits>

using namespace hyc::interpreter;

namespace {
const Tensor kLogits =
    f32({3, 5}, {1.375, 0.75, -0.625, 1, -0.75, -1.5, 1.5, -0.875, -0.5, -1.125, -0.75, -1.75, 0, -1, -1.75});
const Tensor kLabels = i64({3}, {4, -100, 1});
const Tensor kLse = f32({3}, {2.2821769, 1.8005316, 0.78289368});
/// For a cotangent of 2.
const Tensor kGradient = f32({3, 5}, {0.80732438, 0.4321296, 0.10925947, 0.55486539, -1.9035789, 0, 0, 0, 0, 0,
                                      0.43181998, -1.8411423, 0.9141629, 0.33630174, 0.15885769});
} // namespace

TEST(LossOps, CrossEntropySumsOverCountedPositions) {
  std::string text = R"(
    hyc.func @f(%0: tensor<3x5xf32>, %1: tensor<3xi64>) -> (tensor<f32>, tensor<i64>, tensor<3xf32>) {
      %loss, %count, %lse = hyc.cross_entropy %0, %1
        : (tensor<3x5xf32>, tensor<3xi64>) -> (tensor<f32>, tensor<i64>, tensor<3xf32>)
      hyc.return %loss, %count, %lse : tensor<f32>, tensor<i64>, tensor<3xf32>
    })";
  std::vector<Tensor> r = run(text, {kLogits, kLabels});
  EXPECT_TRUE(isNear(r[0], f32({}, {5.5650706})));
  EXPECT_EQ(r[1].getInteger(), 2);
  EXPECT_TRUE(isNear(r[2], kLse));
  EXPECT_EQ(runToFailure(text, {kLogits, i64({3}, {4, 5, 1})}), "label 5 at position 1 is no column of 5 logits\n");
}

TEST(LossOps, CrossEntropyGradOfIgnoredRowsIsZero) {
  std::string op = R"(%r = hyc.cross_entropy_grad %0, %1, %2, %3
      : (tensor<f32>, tensor<3x5xf32>, tensor<3xi64>, tensor<3xf32>) -> tensor<3x5xf32>)";
  Tensor gradient =
      run(function({"tensor<f32>", "tensor<3x5xf32>", "tensor<3xi64>", "tensor<3xf32>"}, op, "tensor<3x5xf32>"),
          {f32({}, {2}), kLogits, kLabels, kLse})[0];
  EXPECT_TRUE(isNear(gradient, kGradient));
}

/// Two shards of 3 columns hold a vocabulary of 5: the last column of the second is padding with a value that would be
/// noticed.
TEST(LossOps, ShardsOfTheVocabularyGiveTheWholeLossAndGradient) {
  Tensor shards[2] = {kLogits.window(1, 0, 3), kLogits.window(1, 3, 3)};
  for (int64_t row = 0; row < 3; ++row)
    shards[1].set(row * 3 + 2, 1000);
  std::string logits = "tensor<3x3xf32>", rows = "tensor<3xf32>", labels = "tensor<3xi64>", offset = "tensor<i64>";
  std::string maxText = function(
      {logits, offset}, "%r = hyc.vocab_max %0 offset %1 of 5 : (" + logits + ", " + offset + ") -> " + rows, rows);
  Tensor max(ElementKind::F32, {3});
  Tensor perShard[2] = {run(maxText, {shards[0], i64({}, {0})})[0], run(maxText, {shards[1], i64({}, {3})})[0]};
  for (int64_t row = 0; row < 3; ++row)
    max.set(row, std::max(perShard[0].getDouble(row), perShard[1].getDouble(row)));

  std::string sumText =
      "hyc.func @f(%0: " + logits + ", %1: " + rows + ", %2: " + labels + ", %3: " + offset + ") -> (" + rows + ", " +
      rows + ") {\n%s, %p = hyc.vocab_sum_exp %0, %1, %2 offset %3 of 5 : (" + logits + ", " + rows + ", " + labels +
      ", " + offset + ") -> (" + rows + ", " + rows + ")\nhyc.return %s, %p : " + rows + ", " + rows + "\n}";
  Tensor sumExp(ElementKind::F32, {3}), picked(ElementKind::F32, {3});
  for (int64_t shard : {0, 1}) {
    std::vector<Tensor> parts = run(sumText, {shards[shard], max, kLabels, i64({}, {3 * shard})});
    for (int64_t row = 0; row < 3; ++row) {
      sumExp.set(row, sumExp.getDouble(row) + parts[0].getDouble(row));
      picked.set(row, picked.getDouble(row) + parts[1].getDouble(row));
    }
  }

  std::vector<Tensor> loss = run(R"(
    hyc.func @f(%0: tensor<3xf32>, %1: tensor<3xf32>, %2: tensor<3xf32>, %3: tensor<3xi64>)
        -> (tensor<f32>, tensor<i64>, tensor<3xf32>) {
      %loss, %count, %lse = hyc.vocab_loss %0, %1, %2, %3
        : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xi64>) -> (tensor<f32>, tensor<i64>, tensor<3xf32>)
      hyc.return %loss, %count, %lse : tensor<f32>, tensor<i64>, tensor<3xf32>
    })",
                                 {max, sumExp, picked, kLabels});
  EXPECT_TRUE(isNear(loss[0], f32({}, {5.5650706})));
  EXPECT_EQ(loss[1].getInteger(), 2);
  EXPECT_TRUE(isNear(loss[2], kLse));

  std::string gradText = function({"tensor<f32>", logits, labels, rows, offset},
                                  "%r = hyc.cross_entropy_grad %0, %1, %2, %3 offset %4 of 5 : (tensor<f32>, " +
                                      logits + ", " + labels + ", " + rows + ", " + offset + ") -> " + logits,
                                  logits);
  for (int64_t shard : {0, 1})
    EXPECT_TRUE(isNear(run(gradText, {f32({}, {2}), shards[shard], kLabels, loss[2], i64({}, {3 * shard})})[0],
                       kGradient.window(1, 3 * shard, 3)))
        << "shard " << shard;
}

TEST(LossOps, ShardOfPaddingAloneHasNoMaximumAndNoSum) {
  std::string text = function({"tensor<2x3xf32>", "tensor<i64>"},
                              "%r = hyc.vocab_max %0 offset %1 of 5 : (tensor<2x3xf32>, tensor<i64>) -> tensor<2xf32>",
                              "tensor<2xf32>");
  double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(isNear(run(text, {f32({2, 3}, {1, 2, 3, 4, 5, 6}), i64({}, {6})})[0], f32({2}, {-inf, -inf})));
}
