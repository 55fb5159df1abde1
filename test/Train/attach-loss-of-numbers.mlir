// Losses against numbers of the output's shape, in f32 whatever the precision, and how many predictions are right.
// RUN: hyc-opt %s --hyc-attach-loss="loss=mse" | FileCheck %s --check-prefix=MSE
// RUN: hyc-opt %s --hyc-attach-loss="loss=binary_cross_entropy accuracy=true" | FileCheck %s --check-prefix=BCE
// RUN: hyc-opt %s --hyc-attach-loss="loss=mse" --hyc-differentiate --hyc-convert-precision=precision=bf16 | FileCheck %s --check-prefix=BF16

// MSE: %[[T:[a-z0-9]*]]: tensor<2x3xf32> {hyc.input = "labels", hyc.source = "sample"}) -> (tensor<f32>, tensor<i64>)
// MSE: %[[Y:.*]] = hyc.einsum
// MSE: %[[E:.*]] = hyc.sub %[[Y]], %[[T]] {hyc.wide, id = "loss.error"}
// MSE: %[[S:.*]] = hyc.mul %[[E]], %[[E]] {hyc.wide, id = "loss.squared"}
// MSE: %[[SUM:.*]] = hyc.reduce {{ *}}sum %[[S]] [0, 1] {id = "loss"}
// MSE: %[[COUNT:.*]] = hyc.constant {id = "loss.count"} dense<6> : tensor<i64>
// MSE: hyc.return %[[SUM]], %[[COUNT]]

// BCE: -> (tensor<f32>, tensor<i64>, tensor<i64>)
// BCE: %[[A:.*]] = hyc.softplus %[[Y:.*]] {hyc.wide, id = "loss.softplus"}
// BCE: %[[C:.*]] = hyc.mul %[[Y]], %[[T:[a-z0-9]*]] {hyc.wide, id = "loss.chosen"}
// BCE: hyc.sub %[[A]], %[[C]] {hyc.wide, id = "loss.each"}
// BCE: hyc.compare {{ *}}gt %[[Y]], %{{.*}} {id = "loss.predicted"}
// BCE: hyc.compare {{ *}}gt %[[T]], %{{.*}} {id = "loss.wanted"}
// BCE: hyc.reduce {{ *}}sum %{{.*}} [0, 1] {id = "loss.correct"} : (tensor<2x3xi64>) -> tensor<i64>

// The error is f32 though what it compares was computed in bf16, and its gradient is bf16 again where the product reads it.
// BF16: %[[Y:.*]] = hyc.einsum {{.*}} {id = "y"} : (tensor<2x4xbf16>, tensor<4x3xbf16>) -> tensor<2x3xbf16>
// BF16: %[[W:.*]] = hyc.convert %[[Y]] {{.*}} : (tensor<2x3xbf16>) -> tensor<2x3xf32>
// BF16: hyc.sub %[[W]], %{{.*}} {hyc.wide, id = "loss.error"} : tensor<2x3xf32>
// BF16: hyc.mul {{.*}} {hyc.backward, hyc.wide, {{.*}} : tensor<2x3xf32>
// BF16: hyc.einsum {{.*}} {hyc.backward, id = "y.grad.rhs"} : (tensor<2x4xbf16>, tensor<2x3xbf16>)
hyc.param @w : tensor<4x3xf32> from #hyc.fill<0.5 : f64>
hyc.func @train(%x: tensor<2x4xf32> {hyc.input = "x"}) -> (tensor<2x3xf32> {hyc.output = "y"}) {
  %w = hyc.read @w {id = "w.read"} : tensor<4x3xf32>
  %y = hyc.einsum "ik,kj->ij" %x, %w {id = "y"} : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  hyc.return %y : tensor<2x3xf32>
}
