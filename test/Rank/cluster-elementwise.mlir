// RUN: hyc-opt %s --hyc-cluster-elementwise | FileCheck %s

// CHECK-LABEL: hyc.func @producers_with_one_user_are_taken_in
// CHECK: rank.cluster %arg0, %arg1, %arg2 dims [array<i64: 0, 1>, array<i64: 0, 1>, array<i64: 1>] attributes {id = "out"}
// CHECK-NEXT: ^bb0(%[[X:.*]]: f32, %[[Y:.*]]: f32, %[[B:.*]]: f32):
// CHECK-NEXT: %[[P:.*]] = rank.compute "mul" %[[X]], %[[Y]]
// CHECK-NEXT: %[[S:.*]] = rank.compute "add" %[[P]], %[[B]]
// CHECK-NEXT: rank.yield %[[S]]
// CHECK-NOT: hyc.mul
hyc.func @producers_with_one_user_are_taken_in(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = hyc.mul %x, %y : tensor<4x8xf32>
  %1 = hyc.broadcast %b [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %2 = hyc.add %0, %1 {id = "out"} : tensor<4x8xf32>
  hyc.return %2 : tensor<4x8xf32>
}

// What two ops need is computed once and kept; what is cheap is computed again.
// CHECK-LABEL: hyc.func @dear_values_are_kept_and_cheap_ones_copied
// CHECK: %[[E:.*]] = rank.cluster %arg0
// CHECK: rank.compute "exp"
// CHECK: rank.cluster %[[E]] dims
// CHECK: rank.literal 2.000000e+00
// CHECK: rank.compute "mul"
// CHECK: rank.cluster %[[E]] dims
// CHECK: rank.literal 2.000000e+00
// CHECK: rank.compute "add"
hyc.func @dear_values_are_kept_and_cheap_ones_copied(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %c = hyc.constant dense<2.0> : tensor<8xf32>
  %e = hyc.exp %x : tensor<8xf32>
  %0 = hyc.mul %e, %c : tensor<8xf32>
  %1 = hyc.add %e, %c : tensor<8xf32>
  hyc.return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: hyc.func @masks_never_reach_memory
// CHECK: rank.cluster %arg0
// CHECK: rank.index 1 : i64
// CHECK: rank.index 0 : i64
// CHECK: rank.compute "compare_le" {{.*}} : (i64, i64) -> i1
// CHECK: rank.compute "select"
// CHECK-NOT: hyc.
// CHECK: hyc.return
hyc.func @masks_never_reach_memory(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %i = hyc.iota dim 0 : tensor<4x4xi64>
  %j = hyc.iota dim 1 : tensor<4x4xi64>
  %m = hyc.compare le %j, %i : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %z = hyc.constant dense<0.0> : tensor<4x4xf32>
  %y = hyc.select %m, %x, %z : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  hyc.return %y : tensor<4x4xf32>
}
