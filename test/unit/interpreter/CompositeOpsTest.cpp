// Layer normalization, attention and embedding with their gradients, against PyTorch in f64.
#include "InterpreterTesting.h"

#include <limits>

using namespace hyc::interpreter;

TEST(CompositeOps, LayerNormAndItsGradient) {
  Tensor x = f32({2, 3}, {1.875, -1, -1.125, -1.625, 1.5, -1.25});
  Tensor scale = f32({3}, {-2, -0.25, 0.375}), bias = f32({3}, {0.375, 0.375, -0.5});
  Tensor dy = f32({2, 3}, {0.875, 1.25, -0.875, -0.375, -1.625, -1.25});
  std::vector<Tensor> r = run(R"(
    hyc.func @f(%x: tensor<2x3xf32>, %s: tensor<3xf32>, %b: tensor<3xf32>, %dy: tensor<2x3xf32>)
        -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) {
      %y, %mean, %rstd = hyc.layer_norm %x, %s, %b epsilon 1.0e-2
        : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>)
      %dx, %ds, %db = hyc.layer_norm_grad %dy, %x, %s, %mean, %rstd
        : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<3xf32>, tensor<2xf32>, tensor<2xf32>)
          -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
      hyc.return %y, %mean, %rstd, %dx, %ds, %db
        : tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>
    })",
                              {x, scale, bias, dy});
  EXPECT_TRUE(isNear(r[0], f32({2, 3}, {-2.4441769, 0.53995184, -0.78116791, 2.0455183, 0.02448946, -0.71254363})));
  EXPECT_TRUE(isNear(r[1], f32({2}, {-0.083333333, -0.45833333})));
  EXPECT_TRUE(isNear(r[2], f32({2}, {0.71978985, 0.71593642})));
  EXPECT_TRUE(
      isNear(r[3], f32({2, 3}, {-0.0047177616, 0.029726875, -0.025009114, 0.41450678, 0.056912855, -0.47141963})));
  EXPECT_TRUE(isNear(r[4], f32({3}, {1.5466121, -3.1030777, 1.3645372})));
  EXPECT_TRUE(isNear(r[5], f32({3}, {0.5, -0.375, -2.125})));
}

namespace {
/// Forward and gradient of attention with 4 query heads over 2 key heads, 2 queries and 3 keys.
std::vector<Tensor> attend(const std::string &causal, llvm::ArrayRef<Tensor> arguments) {
  std::string q = "tensor<1x2x4x2xf32>", k = "tensor<1x3x2x2xf32>", lse = "tensor<1x4x2xf32>";
  return run("hyc.func @f(%q: " + q + ", %k: " + k + ", %v: " + k + ", %d: " + q + ") -> (" + q + ", " + lse + ", " +
                 q + ", " + k + ", " + k + ") {\n" + "%o, %l = hyc.attention " + causal +
                 " %q, %k, %v scale 5.0e-1 : (" + q + ", " + k + ", " + k + ") -> (" + q + ", " + lse + ")\n" +
                 "%dq, %dk, %dv = hyc.attention_grad " + causal + " %d, %q, %k, %v, %o, %l scale 5.0e-1 : (" + q +
                 ", " + q + ", " + k + ", " + k + ", " + q + ", " + lse + ") -> (" + q + ", " + k + ", " + k + ")\n" +
                 "hyc.return %o, %l, %dq, %dk, %dv : " + q + ", " + lse + ", " + q + ", " + k + ", " + k + "\n}",
             arguments);
}
} // namespace

TEST(CompositeOps, AttentionOfGroupedHeadsAndItsGradient) {
  Tensor q = f32({1, 2, 4, 2},
                 {0.125, -1.375, 1, 1.625, -0.5, -0.75, 0.25, -1.375, 2, 1, -1.5, -0.625, 0.25, 1.125, 0.75, -1.875});
  Tensor k = f32({1, 3, 2, 2}, {-1.625, 1.25, 0.5, 0, -1, 1.375, 0.375, -1.25, 0.125, 1.375, 1.5, -1.625});
  Tensor v = f32({1, 3, 2, 2}, {0.75, 1.625, -0.125, 1.375, -1, 0.75, -1.125, 1, 2, 0.75, -0.125, -1.5});
  Tensor dO = f32({1, 2, 4, 2}, {-1.125, -1, 0, -1, -1.25, -0.125, 0.625, -0.75, -0.625, -1.75, -1.5, -1.5, -0.5, 0.125,
                                 1.625, -0.375});
  Tensor o = f32({1, 2, 4, 2},
                 {0.61896269, 1.0438292, 0.87992285, 0.91930248, -0.52898397, 0.21441735, -0.46751382, -0.22018953,
                  1.2082694, 0.84600109, 0.35786516, 1.2202667, -0.37600595, 0.60822836, -0.41138068, -0.5167475});
  Tensor lse = f32({1, 4, 2}, {0.1302879, 1.2098644, 1.845662, 1.4490488, 1.2813801, 0.72602863, 1.9776933, 2.5629333});
  Tensor dq = f32({1, 2, 4, 2}, {-0.16715703, 0.015291453, 0.091598047, 0.0085340242, -0.067343729, -0.080421438,
                                 0.32784068, -0.20273813, -0.08663771, 0.0073840587, 0.063206407, 0.040150775,
                                 -0.052152863, 0.0075198161, 0.2897729, -0.11124435});
  Tensor dk = f32({1, 3, 2, 2}, {0.28010071, 0.19894507, 0.011314095, 0.17189744, -0.2602619, -0.53395548, -0.29443341,
                                 0.73810832, -0.019838815, 0.33501041, 0.28311932, -0.91000576});
  Tensor dv = f32({1, 3, 2, 2}, {-1.2525241, -1.527467, -0.3206473, -0.11160008, -0.98201523, -1.4801705, 0.048956798,
                                 -0.38340038, -1.0154607, -2.2423625, 0.77169051, -0.62999955});
  std::vector<Tensor> r = attend("", {q, k, v, dO});
  EXPECT_TRUE(isNear(r[0], o) && isNear(r[1], lse)) << "forward";
  EXPECT_TRUE(isNear(r[2], dq));
  EXPECT_TRUE(isNear(r[3], dk));
  EXPECT_TRUE(isNear(r[4], dv));
}

TEST(CompositeOps, CausalAttentionAlignsTheLastQueryWithTheLastKey) {
  Tensor q = f32({1, 2, 4, 2},
                 {1.25, -1.75, -0.25, 0.75, 0, 1.625, -0.875, -2, 1, 0.125, 1.625, -0.375, -0.375, 0.125, 0.5, -1.875});
  Tensor k = f32({1, 3, 2, 2}, {0.625, 1.5, -0.25, 1.875, 0.625, 0.75, 0.125, -0.125, -0.875, -1.125, -0.25, -1.375});
  Tensor v = f32({1, 3, 2, 2}, {-1.125, -1.5, 0.75, 1.125, 1.75, -1.125, 0.5, -1.75, -0.5, 0.5, -1.875, -1.125});
  Tensor dO = f32({1, 2, 4, 2}, {-1, -0.75, -1.875, -0.75, -0.25, 1.375, -0.875, 0.875, -1.75, -0.5, 1, -1.125, 1.375,
                                 1.75, 1.125, 1.375});
  Tensor o = f32({1, 2, 4, 2},
                 {0.76795031, -1.2530934, 0.11167363, -1.3386947, 0.70887088, 0.65201517, 0.53438312, -1.3545942,
                  0.14624248, -1.0076164, 0.2457538, -0.96907323, -0.13985451, -0.46715574, -1.2028573, -1.2012062});
  Tensor lse =
      f32({1, 4, 2}, {0.15229105, 1.2628327, 1.0467525, 1.1952792, 1.7031821, 1.1343693, 0.21827027, 1.554239});
  Tensor dq =
      f32({1, 2, 4, 2}, {0, 0.26619485, 0, 0.52136004, -0.10026928, 0.5347695, -0.051084203, 0.27244908, -0.048145414,
                         0.33325172, 0.33017452, 0.3026247, -0.07979366, 2.2033541, 0.053376201, 0.47806891});
  Tensor dk = f32({1, 3, 2, 2}, {0.55591358, 0.020857708, -0.35794285, 0.083863042, -0.23032146, -0.10741346, 0.2701584,
                                 -0.45553004, -0.32559212, 0.086555748, 0.087784449, 0.37166699});
  Tensor dv = f32({1, 3, 2, 2}, {-1.773555, -1.3228977, 0.23038017, 1.9793936, -1.7371026, -1.5104992, -0.091343286,
                                 1.8635054, -0.11434248, -0.29160303, 1.2359631, 1.532101});
  std::vector<Tensor> r = attend("causal", {q, k, v, dO});
  EXPECT_TRUE(isNear(r[0], o) && isNear(r[1], lse)) << "forward";
  EXPECT_TRUE(isNear(r[2], dq));
  EXPECT_TRUE(isNear(r[3], dk));
  EXPECT_TRUE(isNear(r[4], dv));
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

namespace {
const char *kLookup = "%r = hyc.embedding %0, %1 : (tensor<1x3xi64>, tensor<4x2xf32>) -> tensor<1x3x2xf32>";
const Tensor kTable = f32({4, 2}, {0, 1, 10, 11, 20, 21, 30, 31});
} // namespace

TEST(CompositeOps, EmbeddingTakesRows) {
  Tensor rows = run(function({"tensor<1x3xi64>", "tensor<4x2xf32>"}, kLookup, "tensor<1x3x2xf32>"),
                    {i64({1, 3}, {2, 0, 2}), kTable})[0];
  EXPECT_TRUE(isNear(rows, f32({1, 3, 2}, {20, 21, 0, 1, 20, 21})));
}

TEST(CompositeOps, EmbeddingOfAnIdOutsideTheTableIsADiagnostic) {
  EXPECT_EQ(runToFailure(function({"tensor<1x3xi64>", "tensor<4x2xf32>"}, kLookup, "tensor<1x3x2xf32>"),
                         {i64({1, 3}, {2, 4, 2}), kTable}),
            "id 4 at position 1 lies outside the table's 4 rows\n");
}

TEST(CompositeOps, EmbeddingShardGivesZerosForIdsOfOtherShards) {
  std::string op =
      "%r = hyc.embedding %0, %1 offset %2 : (tensor<1x3xi64>, tensor<4x2xf32>, tensor<i64>) -> tensor<1x3x2xf32>";
  Tensor rows = run(function({"tensor<1x3xi64>", "tensor<4x2xf32>", "tensor<i64>"}, op, "tensor<1x3x2xf32>"),
                    {i64({1, 3}, {3, 6, 7}), kTable, i64({}, {4})})[0];
  EXPECT_TRUE(isNear(rows, f32({1, 3, 2}, {0, 0, 20, 21, 30, 31})));
}

TEST(CompositeOps, EmbeddingGradAddsTheUsesOfARow) {
  std::string op = "%r = hyc.embedding_grad %0, %1 : (tensor<1x3xi64>, tensor<1x3x2xf32>) -> tensor<4x2xf32>";
  Tensor table = run(function({"tensor<1x3xi64>", "tensor<1x3x2xf32>"}, op, "tensor<4x2xf32>"),
                     {i64({1, 3}, {2, 0, 2}), f32({1, 3, 2}, {1, 2, 3, 4, 5, 6})})[0];
  EXPECT_TRUE(isNear(table, f32({4, 2}, {3, 4, 0, 0, 6, 8, 0, 0})));
}
