// A program that tells how well the parameters do: the sums of the forward pass, with what was right among them, and no
// gradient, no update, no state of an optimizer.
// RUN: hyc-opt %s --hyc-attach-loss=accuracy=true --hyc-enter-evaluation --hyc-remove-dropout --hyc-differentiate --hyc-attach-optimizer --hyc-verify-train | FileCheck %s

// CHECK: module attributes {hyc.entry = "evaluate"}
// CHECK: hyc.param @w : {{.*}} frozen
// CHECK-NOT: role "gradient"
// CHECK-NOT: role "adam
// CHECK-DAG: hyc.state @correct_count role "correct_count" : tensor<i64>
// CHECK: hyc.func @microbatch
// CHECK: %[[BEST:.*]] = hyc.reduce max %[[Y:.*]] [1] {id = "loss.best"} : (tensor<2x8xf32>) -> tensor<2xf32>
// CHECK: %[[BESTS:.*]] = hyc.broadcast %[[BEST]] [0]
// CHECK: %[[IS_BEST:.*]] = hyc.compare ge %[[Y]], %[[BESTS]]
// CHECK: %[[IS_LABEL:.*]] = hyc.compare eq
// CHECK: hyc.and %[[IS_BEST]], %[[IS_LABEL]] {id = "loss.is_right"}
// CHECK: hyc.accumulate %{{.*}} into @correct_count
// CHECK-NOT: hyc.backward
// CHECK: hyc.func @apply
// CHECK-NOT: hyc.adamw
hyc.param @w : tensor<4x8xf32> from #hyc.fill<0.5 : f64>
hyc.func @train(%x: tensor<2x4xf32> {hyc.input = "x"}) -> (tensor<2x8xf32> {hyc.output = "y"}) {
  %w = hyc.read @w {id = "w.read"} : tensor<4x8xf32>
  %d = hyc.dropout %x rate 1.0e-1 {id = "d"} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = hyc.einsum "ik,kj->ij" %d, %w {id = "y"} : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  hyc.return %y : tensor<2x8xf32>
}
