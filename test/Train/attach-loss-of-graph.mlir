// RUN: hyc-opt %s --hyc-attach-loss="loss=loss" | FileCheck %s

// A loss in the graph counts as one token a micro-batch, and shifts its labels itself. What only fed other outputs goes.
hyc.func @train(%x: tensor<2x4xi64> {hyc.input = "input_ids"}, %l: tensor<2x4xi64> {hyc.input = "labels"})
    -> (tensor<1xf32> {hyc.output = "loss"}, tensor<2x4xi64> {hyc.output = "ids"}) {
  %c = hyc.convert %x {id = "c"} : (tensor<2x4xi64>) -> tensor<2x4xf32>
  %s = hyc.slice %c offsets [0, 0] strides [1, 1] {id = "s"} : (tensor<2x4xf32>) -> tensor<1x1xf32>
  %r = hyc.reshape %s {id = "r"} : (tensor<1x1xf32>) -> tensor<1xf32>
  %dead = hyc.neg %x {id = "dead"} : tensor<2x4xi64>
  hyc.return %r, %dead : tensor<1xf32>, tensor<2x4xi64>
}
// CHECK: hyc.input = "input_ids", hyc.source = "token"
// CHECK-SAME: hyc.input = "labels", hyc.source = "token"
// CHECK-NOT: hyc.neg
// CHECK: %[[LOSS:.*]] = hyc.reshape %{{.*}} {id = "loss.scalar"} : (tensor<1xf32>) -> tensor<f32>
// CHECK: %[[ONE:.*]] = hyc.constant {id = "loss.count"} dense<1> : tensor<i64>
// CHECK: hyc.return %[[LOSS]], %[[ONE]] : tensor<f32>, tensor<i64>
