// rms_norm, group_norm and rotary positions with their gradients, against PyTorch (the norms) and transformers
// (apply_rotary_pos_emb) in f64.
#include "InterpreterTesting.h"

using namespace hyc::interpreter;

TEST(NormOps, RmsNormAndItsGradient) {
  Tensor x = f32({2, 4}, {-1.375, -0.625, -0.5, -1, 1.875, -0.875, -0.625, -1.375});
  Tensor scale = f32({4}, {-0.125, -2, 0, -1.875});
  Tensor dy = f32({2, 4}, {-0.5, -1.125, -0.375, 1.5, -1.25, 1.125, 0.25, 0.5});
  std::vector<Tensor> r = run(R"(
    hyc.func @f(%x: tensor<2x4xf32>, %s: tensor<4xf32>, %dy: tensor<2x4xf32>)
        -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2x4xf32>, tensor<4xf32>) {
      %y, %rstd = hyc.rms_norm %x, %s epsilon 1.0e-2
        : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
      %dx, %ds = hyc.rms_norm_grad %dy, %x, %s, %rstd
        : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)
      hyc.return %y, %rstd, %dx, %ds : tensor<2x4xf32>, tensor<2xf32>, tensor<2x4xf32>, tensor<4xf32>
    })",
                              {x, scale, dy});
  EXPECT_TRUE(
      isNear(r[0], f32({2, 4}, {0.18189995, 1.32290873, 0, 1.98436309, -0.182426143, 1.3621152, 0, 2.00668757})));
  EXPECT_TRUE(isNear(r[1], f32({2}, {1.05832698, 0.778351543})));
  EXPECT_TRUE(isNear(r[2], f32({2, 4}, {0.604141439, 2.62577935, 0.19563491, -2.58527482, -0.663243249, -1.38502266,
                                        0.261620226, -0.154140075})));
  EXPECT_TRUE(isNear(r[3], f32({4}, {-1.09666163, -0.0220536403, 0.0768188807, -2.12260716})));
}

TEST(NormOps, GroupNormAndItsGradient) {
  Tensor x = f32({2, 2, 2, 3}, {-0.75, 1,      1.125, -1.625, 1,     -1,    -2, 0.625, 1.625, 0.375, -0.75,  -0.625,
                                1.125, -0.875, -0.75, 0.625,  0.875, -1.25, -2, 0.5,   -0.5,  1.625, -1.125, -0.25});
  Tensor scale = f32({2, 2}, {1, 1.25, 0.125, 1.25}), bias = f32({2, 2}, {0.75, -1.75, -1.75, 1.875});
  Tensor dy =
      f32({2, 2, 2, 3}, {1.5,  -1.875, 0.375, 1.25,   -1.375, -1,    -0.25,  -1.875, 1.625,  -0.75, 1,    1.375,
                         1.75, -1.125, 1,     -0.625, -1.875, 1.375, -0.125, 0,      -1.375, 0.5,   1.75, 0.125});
  std::vector<Tensor> r = run(R"(
    hyc.func @f(%x: tensor<2x2x2x3xf32>, %s: tensor<2x2xf32>, %b: tensor<2x2xf32>, %dy: tensor<2x2x2x3xf32>)
        -> (tensor<2x2x2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2x2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
      %y, %mean, %rstd = hyc.group_norm %x, %s, %b epsilon 1.0e-2
        : (tensor<2x2x2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>) -> (tensor<2x2x2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
      %dx, %ds, %db = hyc.group_norm_grad %dy, %x, %s, %mean, %rstd
        : (tensor<2x2x2x3xf32>, tensor<2x2x2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
        -> (tensor<2x2x2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
      hyc.return %y, %mean, %rstd, %dx, %ds, %db : tensor<2x2x2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>,
        tensor<2x2x2x3xf32>, tensor<2x2xf32>, tensor<2x2xf32>
    })",
                              {x, scale, bias, dy});
  EXPECT_TRUE(isNear(
      r[0], f32({2, 2, 2, 3}, {0.117220332, 1.68055834,   1.79222534,     -3.51806084,  -0.58680208,  -2.82014209,
                               -1.95182692, -1.66926923,  -1.5616282,     2.41320513,   1.20224359,   1.33679487,
                               1.98411501,  -0.131510723, 0.000715885475, -0.868489277, -0.537922756, -3.34773819,
                               -1.93472097, -1.6643976,   -1.77252695,    3.94747917,   0.973922099,  1.9200539})));
  EXPECT_TRUE(isNear(r[1], f32({2, 2}, {-0.0416666667, -0.125, -0.0416666667, -0.291666667})));
  EXPECT_TRUE(isNear(r[2], f32({2, 2}, {0.893336002, 0.861128207, 1.05781287, 0.865034785})));
  EXPECT_TRUE(isNear(
      r[3], f32({2, 2, 2, 3}, {1.0743083,    -0.766995071, 1.32684705,   0.543288981,  -0.62741132, -1.55003794,
                               -0.682846199, -0.335033317, 0.24084534,   -0.990297854, 0.669393149, 1.09793888,
                               2.38230217,   -1.6355311,   0.673360073,  -0.539441973, -2.07019692, 1.18950775,
                               -0.516963947, -0.353494443, -0.562153631, 0.254631298,  1.44129948,  -0.263318759})));
  EXPECT_TRUE(isNear(r[4], f32({2, 2}, {0.0989848391, -6.20784811, 2.07404304, -1.88116585})));
  EXPECT_TRUE(isNear(r[5], f32({2, 2}, {1.625, -2.25, -2, 4})));
}

TEST(NormOps, RotaryTableAndRopeAndItsGradient) {
  Tensor q =
      f32({1, 3, 2, 4}, {1.75,  -1.375, 0.25,   0.5,   -0.625, 1.5,  -0.75, 1.5,  1.625,  -0.25,  0.25,   -1.5,
                         0.875, 0.875,  -0.875, 0.125, 0.875,  1.75, -2,    0.75, -0.375, -0.875, -0.875, -1.125});
  Tensor dy =
      f32({1, 3, 2, 4}, {1.875,  1.625, 0.75,  1.125, -1.875, -2,     1.5,    0.125, -1,    1,     -0.375, 0.375,
                         -0.125, -0.75, 1.125, -1,    1.75,   -1.125, -1.625, -1.25, 0.625, 0.125, 1.125,  -1.625});
  std::vector<Tensor> r = run(R"(
    hyc.func @f(%x: tensor<1x3x2x4xf32>, %dy: tensor<1x3x2x4xf32>)
        -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>) {
      %c, %s = hyc.rotary_table [1.0, 0.25] factor 1.0 : () -> (tensor<3x2xf32>, tensor<3x2xf32>)
      %y = hyc.rope %x, %c, %s
        : (tensor<1x3x2x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<1x3x2x4xf32>
      %dx = hyc.rope inverse %dy, %c, %s
        : (tensor<1x3x2x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<1x3x2x4xf32>
      hyc.return %c, %s, %y, %dx : tensor<3x2xf32>, tensor<3x2xf32>, tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>
    })",
                              {q, dy});
  EXPECT_TRUE(isNear(r[0], f32({3, 2}, {1, 1, 0.540302306, 0.968912422, -0.416146837, 0.877582562})));
  EXPECT_TRUE(isNear(r[1], f32({3, 2}, {0, 0, 0.841470985, 0.247403959, 0.909297427, 0.479425539})));
  EXPECT_TRUE(
      isNear(r[2], f32({1, 3, 2, 4}, {1.75,       -1.375,      0.25,        0.5,          -0.625,       1.5,
                                      -0.75,      1.5,         0.667623501, 0.128877833,  1.50246593,   -1.51521962,
                                      1.20905163, 0.816872874, 0.263522594, 0.337592517,  1.45446637,   1.17620033,
                                      1.62792892, 1.49718161,  0.951690312, -0.228531011, 0.0231419469, -1.40677773})));
  EXPECT_TRUE(isNear(
      r[3], f32({1, 3, 2, 4}, {1.875,        1.625,        0.75,         1.125,        -1.875,      -2,
                               1.5,          0.125,        -0.855853925, 1.06168891,   0.63885762,  0.115938199,
                               0.87911707,   -0.974088276, 0.713023967,  -0.783359452, -2.20586528, -1.58656231,
                               -0.915031888, -0.557624471, 0.762867832,  -0.66936868,  -1.03647608, -1.48599986})));
}

/// Tables by sample: what one sample's positions give is what the other's would.
TEST(NormOps, RopeOfSamplesWithPositionsOfTheirOwn) {
  Tensor x = f32({2, 1, 1, 3}, {1, 2, 5, 1, 2, 5}), cos = f32({2, 1, 1}, {0, 0.5}), sin = f32({2, 1, 1}, {1, 2});
  std::vector<Tensor> r = run(R"(
    hyc.func @f(%x: tensor<2x1x1x3xf32>, %c: tensor<2x1x1xf32>, %s: tensor<2x1x1xf32>) -> tensor<2x1x1x3xf32> {
      %y = hyc.rope %x, %c, %s : (tensor<2x1x1x3xf32>, tensor<2x1x1xf32>, tensor<2x1x1xf32>) -> tensor<2x1x1x3xf32>
      hyc.return %y : tensor<2x1x1x3xf32>
    })",
                              {x, cos, sin});
  EXPECT_TRUE(isNear(r[0], f32({2, 1, 1, 3}, {-2, 1, 5, -3.5, 3, 5})));
}
