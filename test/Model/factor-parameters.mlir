// RUN: hyc-opt %s --hyc-factor-parameters --split-input-file | FileCheck %s

// CHECK: hyc.param @qkv : tensor<32x3x4x8xf32> from #hyc.fill<0.000000e+00 : f64> {shape = array<i64: 32, 96>}
// CHECK: hyc.param @bias : tensor<3x4x8xf32> from #hyc.fill<0.000000e+00 : f64> {shape = array<i64: 96>}
hyc.param @qkv : tensor<32x96xf32> from #hyc.fill<0.0 : f64>
hyc.param @bias : tensor<96xf32> from #hyc.fill<0.0 : f64>
// CHECK-LABEL: @heads_become_dimensions
// CHECK: %[[W:.*]] = hyc.read @qkv : tensor<32x3x4x8xf32>
// CHECK: hyc.einsum "bsk,knac->bsnac" %{{.*}}, %[[W]] {id = "qkv.einsum"} : {{.*}} -> tensor<2x16x3x4x8xf32>
// CHECK: hyc.broadcast %{{.*}} [2, 3, 4] {{.*}} : (tensor<3x4x8xf32>) -> tensor<2x16x3x4x8xf32>
// CHECK: hyc.split %{{.*}} dim 2 {id = "split"} : (tensor<2x16x3x4x8xf32>) -> (tensor<2x16x1x4x8xf32>, tensor<2x16x1x4x8xf32>, tensor<2x16x1x4x8xf32>)
hyc.func @heads_become_dimensions(%x: tensor<2x16x32xf32>) -> (tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>) {
  %w = hyc.read @qkv : tensor<32x96xf32>
  %0 = hyc.einsum "bsk,kn->bsn" %x, %w {id = "qkv.einsum"} : (tensor<2x16x32xf32>, tensor<32x96xf32>) -> tensor<2x16x96xf32>
  %b = hyc.read @bias : tensor<96xf32>
  %1 = hyc.broadcast %b [2] {id = "bias.broadcast"} : (tensor<96xf32>) -> tensor<2x16x96xf32>
  %2 = hyc.add %0, %1 : tensor<2x16x96xf32>
  %3:3 = hyc.split %2 dim 2 {id = "split"} : (tensor<2x16x96xf32>) -> (tensor<2x16x32xf32>, tensor<2x16x32xf32>, tensor<2x16x32xf32>)
  %q = hyc.reshape %3#0 : (tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32>
  %k = hyc.reshape %3#1 : (tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32>
  %v = hyc.reshape %3#2 : (tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32>
  hyc.return %q, %k, %v : tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>
}

// -----

// Read whole elsewhere, a parameter keeps its shape.
// CHECK: hyc.param @w : tensor<32x32xf32> from #hyc.fill<0.000000e+00 : f64>{{$}}
hyc.param @w : tensor<32x32xf32> from #hyc.fill<0.0 : f64>
// CHECK-LABEL: @a_parameter_of_two_shapes
hyc.func @a_parameter_of_two_shapes(%x: tensor<2x16x32xf32>) -> (tensor<2x16x4x8xf32>, tensor<32x32xf32>) {
  %w = hyc.read @w : tensor<32x32xf32>
  %0 = hyc.einsum "bsk,kn->bsn" %x, %w : (tensor<2x16x32xf32>, tensor<32x32xf32>) -> tensor<2x16x32xf32>
  %1 = hyc.reshape %0 : (tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32>
  %whole = hyc.read @w : tensor<32x32xf32>
  hyc.return %1, %whole : tensor<2x16x4x8xf32>, tensor<32x32xf32>
}

// -----

// What is split comes from an input, not from a parameter.
// CHECK-LABEL: @an_activation_is_not_split_further
// CHECK: hyc.add
// CHECK-NEXT: hyc.reshape
hyc.func @an_activation_is_not_split_further(%x: tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32> {
  %0 = hyc.add %x, %x : tensor<2x16x32xf32>
  %1 = hyc.reshape %0 : (tensor<2x16x32xf32>) -> tensor<2x16x4x8xf32>
  hyc.return %1 : tensor<2x16x4x8xf32>
}
