// RUN: hyc-opt %s --hyc-raise-rms-norm --split-input-file | FileCheck %s

// As transformers writes it.
// CHECK-LABEL: @by_power_and_reciprocal_root
// CHECK-SAME: (%[[X:.*]]: tensor<2x4x8xf32>, %[[W:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]], %{{.*}} = hyc.rms_norm %[[X]], %[[W]] epsilon {{1.000000e-06|9.9999999999999995E-7}} {id = "norm.rms_norm"}
// CHECK-NEXT: hyc.return %[[Y]]
hyc.func @by_power_and_reciprocal_root(%x: tensor<2x4x8xf32>, %w: tensor<8xf32>) -> tensor<2x4x8xf32> {
  %eighth = hyc.constant dense<1.250000e-01> : tensor<2x4xf32>
  %eps = hyc.constant dense<9.99999997E-7> : tensor<2x4xf32>
  %two = hyc.constant dense<2.0> : tensor<2x4x8xf32>
  %0 = hyc.pow %x, %two : tensor<2x4x8xf32>
  %1 = hyc.reduce sum %0 [2] : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  %2 = hyc.mul %1, %eighth : tensor<2x4xf32>
  %stabilized = hyc.add %2, %eps : tensor<2x4xf32>
  %r = hyc.rsqrt %stabilized : tensor<2x4xf32>
  %roots = hyc.broadcast %r [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x8xf32>
  %n = hyc.mul %x, %roots : tensor<2x4x8xf32>
  %scales = hyc.broadcast %w [2] : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %y = hyc.mul %scales, %n {id = "norm.mul.2"} : tensor<2x4x8xf32>
  hyc.return %y : tensor<2x4x8xf32>
}

// -----

// x is a product itself, the root a division by it, the scale multiplied in first.
// CHECK-LABEL: @of_a_product_by_division
// CHECK-SAME: (%[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8xf32>)
// CHECK: %[[X:.*]] = hyc.mul %[[A]], %[[B]]
// CHECK-NEXT: hyc.rms_norm %[[X]], %[[W]] epsilon 1.000000e-05
// CHECK-NEXT: hyc.return
hyc.func @of_a_product_by_division(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %eight = hyc.constant dense<8.0> : tensor<4xf32>
  %eps = hyc.constant dense<9.99999974E-6> : tensor<4xf32>
  %x = hyc.mul %a, %b : tensor<4x8xf32>
  %0 = hyc.mul %x, %x : tensor<4x8xf32>
  %1 = hyc.reduce sum %0 [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %2 = hyc.div %1, %eight : tensor<4xf32>
  %3 = hyc.add %eps, %2 : tensor<4xf32>
  %4 = hyc.sqrt %3 : tensor<4xf32>
  %5 = hyc.broadcast %4 [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %scales = hyc.broadcast %w [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %6 = hyc.mul %x, %scales : tensor<4x8xf32>
  %7 = hyc.div %6, %5 : tensor<4x8xf32>
  hyc.return %7 : tensor<4x8xf32>
}

// -----

// The mean square of another value.
// CHECK-LABEL: @of_another_statistic
// CHECK-NOT: hyc.rms_norm
hyc.func @of_another_statistic(%x: tensor<4x8xf32>, %z: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %eight = hyc.constant dense<8.0> : tensor<4xf32>
  %eps = hyc.constant dense<1.0e-6> : tensor<4xf32>
  %0 = hyc.mul %z, %z : tensor<4x8xf32>
  %1 = hyc.reduce sum %0 [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %2 = hyc.div %1, %eight : tensor<4xf32>
  %3 = hyc.add %2, %eps : tensor<4xf32>
  %4 = hyc.rsqrt %3 : tensor<4xf32>
  %5 = hyc.broadcast %4 [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %6 = hyc.mul %x, %5 : tensor<4x8xf32>
  %7 = hyc.broadcast %w [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %8 = hyc.mul %6, %7 : tensor<4x8xf32>
  hyc.return %8 : tensor<4x8xf32>
}
