// RUN: hyc-opt %s --hyc-raise-layer-norm --split-input-file | FileCheck %s

// CHECK-LABEL: @by_sqrt_and_division
// CHECK-SAME: (%[[X:.*]]: tensor<2x4x8xf32>, %[[W:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[Y:.*]], %{{.*}}, %{{.*}} = hyc.layer_norm %[[X]], %[[W]], %[[B]] epsilon 1.000000e-05 {id = "ln.layer_norm"}
// CHECK-NEXT: hyc.return %[[Y]]
hyc.func @by_sqrt_and_division(%x: tensor<2x4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x4x8xf32> {
  %eighth = hyc.constant dense<1.250000e-01> : tensor<2x4xf32>
  %eps = hyc.constant dense<9.99999974E-6> : tensor<2x4xf32>
  %two = hyc.constant dense<2.0> : tensor<2x4x8xf32>
  %0 = hyc.reduce sum %x [2] : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  %1 = hyc.mul %0, %eighth : tensor<2x4xf32>
  %2 = hyc.broadcast %1 [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x8xf32>
  %centred = hyc.sub %x, %2 : tensor<2x4x8xf32>
  %3 = hyc.pow %centred, %two : tensor<2x4x8xf32>
  %4 = hyc.reduce sum %3 [2] : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  %5 = hyc.mul %4, %eighth : tensor<2x4xf32>
  %6 = hyc.add %5, %eps : tensor<2x4xf32>
  %7 = hyc.sqrt %6 : tensor<2x4xf32>
  %8 = hyc.broadcast %7 [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x8xf32>
  %9 = hyc.div %centred, %8 : tensor<2x4x8xf32>
  %scale = hyc.broadcast %w [2] : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %10 = hyc.mul %9, %scale : tensor<2x4x8xf32>
  %bias = hyc.broadcast %b [2] : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %11 = hyc.add %10, %bias {id = "ln.add.2"} : tensor<2x4x8xf32>
  hyc.return %11 : tensor<2x4x8xf32>
}

// -----

// Reciprocal of the root, the scale multiplied into it first, the centred value computed twice, no bias.
// CHECK-LABEL: @by_reciprocal_scale_first_without_bias
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<8xf32>)
// CHECK-NEXT: %[[ZERO:.*]] = hyc.constant dense<0.000000e+00> : tensor<8xf32>
// CHECK-NEXT: hyc.layer_norm %[[X]], %[[W]], %[[ZERO]] epsilon {{1.000000e-06|9.9999999999999995E-7}}
// CHECK-NEXT: hyc.return
hyc.func @by_reciprocal_scale_first_without_bias(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %eight = hyc.constant dense<8.0> : tensor<4xf32>
  %eps = hyc.constant dense<1.0e-6> : tensor<4xf32>
  %0 = hyc.reduce sum %x [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %1 = hyc.div %0, %eight : tensor<4xf32>
  %2 = hyc.broadcast %1 [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %3 = hyc.sub %x, %2 : tensor<4x8xf32>
  %4 = hyc.sub %x, %2 : tensor<4x8xf32>
  %5 = hyc.mul %4, %4 : tensor<4x8xf32>
  %6 = hyc.reduce sum %5 [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %7 = hyc.div %6, %eight : tensor<4xf32>
  %8 = hyc.add %eps, %7 : tensor<4xf32>
  %9 = hyc.sqrt %8 : tensor<4xf32>
  %10 = hyc.reciprocal %9 : tensor<4xf32>
  %11 = hyc.broadcast %10 [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %scale = hyc.broadcast %w [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %12 = hyc.mul %11, %scale : tensor<4x8xf32>
  %13 = hyc.mul %12, %3 : tensor<4x8xf32>
  hyc.return %13 : tensor<4x8xf32>
}

// -----

// The mean square without centring is another norm.
// CHECK-LABEL: @rms_norm_is_not_layer_norm
// CHECK-NOT: hyc.layer_norm
// CHECK: hyc.return
hyc.func @rms_norm_is_not_layer_norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %eighth = hyc.constant dense<0.125> : tensor<4xf32>
  %eps = hyc.constant dense<1.0e-6> : tensor<4xf32>
  %0 = hyc.mul %x, %x : tensor<4x8xf32>
  %1 = hyc.reduce sum %0 [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %2 = hyc.mul %1, %eighth : tensor<4xf32>
  %3 = hyc.add %2, %eps : tensor<4xf32>
  %4 = hyc.rsqrt %3 : tensor<4xf32>
  %5 = hyc.broadcast %4 [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %6 = hyc.mul %x, %5 : tensor<4x8xf32>
  %scale = hyc.broadcast %w [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %7 = hyc.mul %6, %scale : tensor<4x8xf32>
  %bias = hyc.broadcast %b [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %8 = hyc.add %7, %bias : tensor<4x8xf32>
  hyc.return %8 : tensor<4x8xf32>
}

// -----

// Divided by another number than the count, it is no mean.
// CHECK-LABEL: @another_divisor_is_not_the_mean
// CHECK-NOT: hyc.layer_norm
// CHECK: hyc.return
hyc.func @another_divisor_is_not_the_mean(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %eight = hyc.constant dense<8.0> : tensor<4xf32>
  %seven = hyc.constant dense<7.0> : tensor<4xf32>
  %eps = hyc.constant dense<1.0e-6> : tensor<4xf32>
  %0 = hyc.reduce sum %x [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %1 = hyc.div %0, %eight : tensor<4xf32>
  %2 = hyc.broadcast %1 [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %3 = hyc.sub %x, %2 : tensor<4x8xf32>
  %4 = hyc.mul %3, %3 : tensor<4x8xf32>
  %5 = hyc.reduce sum %4 [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  %6 = hyc.div %5, %seven : tensor<4xf32>
  %7 = hyc.add %6, %eps : tensor<4xf32>
  %8 = hyc.rsqrt %7 : tensor<4xf32>
  %9 = hyc.broadcast %8 [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %10 = hyc.mul %3, %9 : tensor<4x8xf32>
  %scale = hyc.broadcast %w [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %11 = hyc.mul %10, %scale : tensor<4x8xf32>
  %bias = hyc.broadcast %b [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %12 = hyc.add %11, %bias : tensor<4x8xf32>
  hyc.return %12 : tensor<4x8xf32>
}

// -----

// Of a long row, too: its unbiased variance is a thousandth larger.
// CHECK-LABEL: @the_unbiased_variance_of_a_long_row_is_not_its_variance
// CHECK-NOT: hyc.layer_norm
// CHECK: hyc.return
hyc.func @the_unbiased_variance_of_a_long_row_is_not_its_variance(%x: tensor<4x2048xf32>, %w: tensor<2048xf32>, %b: tensor<2048xf32>) -> tensor<4x2048xf32> {
  %count = hyc.constant dense<4.8828125E-4> : tensor<4xf32>
  %unbiased = hyc.constant dense<4.88519785E-4> : tensor<4xf32>
  %eps = hyc.constant dense<1.0e-6> : tensor<4xf32>
  %0 = hyc.reduce sum %x [1] : (tensor<4x2048xf32>) -> tensor<4xf32>
  %1 = hyc.mul %0, %count : tensor<4xf32>
  %2 = hyc.broadcast %1 [0] : (tensor<4xf32>) -> tensor<4x2048xf32>
  %3 = hyc.sub %x, %2 : tensor<4x2048xf32>
  %4 = hyc.mul %3, %3 : tensor<4x2048xf32>
  %5 = hyc.reduce sum %4 [1] : (tensor<4x2048xf32>) -> tensor<4xf32>
  %6 = hyc.mul %5, %unbiased : tensor<4xf32>
  %7 = hyc.add %6, %eps : tensor<4xf32>
  %8 = hyc.rsqrt %7 : tensor<4xf32>
  %9 = hyc.broadcast %8 [0] : (tensor<4xf32>) -> tensor<4x2048xf32>
  %10 = hyc.mul %3, %9 : tensor<4x2048xf32>
  %scale = hyc.broadcast %w [1] : (tensor<2048xf32>) -> tensor<4x2048xf32>
  %11 = hyc.mul %10, %scale : tensor<4x2048xf32>
  %bias = hyc.broadcast %b [1] : (tensor<2048xf32>) -> tensor<4x2048xf32>
  %12 = hyc.add %11, %bias : tensor<4x2048xf32>
  hyc.return %12 : tensor<4x2048xf32>
}

// -----

// In bf16 the reciprocal of a count is what is nearest to it there.
// CHECK-LABEL: @by_a_rounded_reciprocal
// CHECK: hyc.layer_norm
hyc.func @by_a_rounded_reciprocal(%x: tensor<4x768xbf16>, %w: tensor<768xbf16>, %b: tensor<768xbf16>) -> tensor<4x768xbf16> {
  %count = hyc.constant dense<1.30208337E-3> : tensor<4xbf16>
  %eps = hyc.constant dense<1.0e-5> : tensor<4xbf16>
  %0 = hyc.reduce sum %x [1] : (tensor<4x768xbf16>) -> tensor<4xbf16>
  %1 = hyc.mul %0, %count : tensor<4xbf16>
  %2 = hyc.broadcast %1 [0] : (tensor<4xbf16>) -> tensor<4x768xbf16>
  %3 = hyc.sub %x, %2 : tensor<4x768xbf16>
  %4 = hyc.mul %3, %3 : tensor<4x768xbf16>
  %5 = hyc.reduce sum %4 [1] : (tensor<4x768xbf16>) -> tensor<4xbf16>
  %6 = hyc.mul %5, %count : tensor<4xbf16>
  %7 = hyc.add %6, %eps : tensor<4xbf16>
  %8 = hyc.rsqrt %7 : tensor<4xbf16>
  %9 = hyc.broadcast %8 [0] : (tensor<4xbf16>) -> tensor<4x768xbf16>
  %10 = hyc.mul %3, %9 : tensor<4x768xbf16>
  %scale = hyc.broadcast %w [1] : (tensor<768xbf16>) -> tensor<4x768xbf16>
  %11 = hyc.mul %10, %scale : tensor<4x768xbf16>
  %bias = hyc.broadcast %b [1] : (tensor<768xbf16>) -> tensor<4x768xbf16>
  %12 = hyc.add %11, %bias : tensor<4x768xbf16>
  hyc.return %12 : tensor<4x768xbf16>
}
