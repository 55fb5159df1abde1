// RUN: hyc-opt %s --hyc-absorb-layout --split-input-file | FileCheck %s

// CHECK-LABEL: @merged_rows_become_letters
// CHECK-NEXT: %[[P:.*]] = hyc.einsum "mak,kn->man" %{{.*}}, %{{.*}} {id = "fc.einsum"} : (tensor<2x16x32xf32>, tensor<32x96xf32>) -> tensor<2x16x96xf32>
// CHECK-NEXT: %[[B:.*]] = hyc.broadcast %{{.*}} [2] {{.*}} : (tensor<96xf32>) -> tensor<2x16x96xf32>
// CHECK-NEXT: hyc.add %[[P]], %[[B]]
// CHECK-NEXT: hyc.return
hyc.func @merged_rows_become_letters(%x: tensor<2x16x32xf32>, %w: tensor<32x96xf32>, %b: tensor<96xf32>) -> tensor<2x16x96xf32> {
  %0 = hyc.reshape %x : (tensor<2x16x32xf32>) -> tensor<32x32xf32>
  %1 = hyc.einsum "mk,kn->mn" %0, %w {id = "fc.einsum"} : (tensor<32x32xf32>, tensor<32x96xf32>) -> tensor<32x96xf32>
  %2 = hyc.broadcast %b [1] : (tensor<96xf32>) -> tensor<32x96xf32>
  %3 = hyc.add %1, %2 : tensor<32x96xf32>
  %4 = hyc.reshape %3 : (tensor<32x96xf32>) -> tensor<2x16x96xf32>
  hyc.return %4 : tensor<2x16x96xf32>
}

// -----

// Keys transposed by way of a merged (batch, head): the merge passes the transpose and meets its inverse.
// CHECK-LABEL: @transpose_through_merged_heads
// CHECK-SAME: (%[[Q:.*]]: tensor<2x16x4x8xf32>, %[[K:.*]]: tensor<2x16x4x8xf32>)
// CHECK: %[[SCALED:.*]] = hyc.mul %[[K]]
// CHECK: hyc.einsum "ambk,anbk->abmn" %[[Q]], %[[SCALED]]
// CHECK-NOT: hyc.transpose
hyc.func @transpose_through_merged_heads(%q: tensor<2x16x4x8xf32>, %k: tensor<2x16x4x8xf32>) -> tensor<2x4x16x16xf32> {
  %0 = hyc.transpose %q [0, 2, 1, 3] : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %1 = hyc.transpose %k [0, 2, 1, 3] : (tensor<2x16x4x8xf32>) -> tensor<2x4x16x8xf32>
  %2 = hyc.reshape %1 : (tensor<2x4x16x8xf32>) -> tensor<8x16x8xf32>
  %3 = hyc.transpose %2 [0, 2, 1] : (tensor<8x16x8xf32>) -> tensor<8x8x16xf32>
  %4 = hyc.reshape %3 : (tensor<8x8x16xf32>) -> tensor<2x4x8x16xf32>
  %c = hyc.constant dense<0.5> : tensor<2x4x8x16xf32>
  %5 = hyc.mul %4, %c : tensor<2x4x8x16xf32>
  %6 = hyc.einsum "abmk,abkn->abmn" %0, %5 : (tensor<2x4x16x8xf32>, tensor<2x4x8x16xf32>) -> tensor<2x4x16x16xf32>
  hyc.return %6 : tensor<2x4x16x16xf32>
}

// -----

// A merged dimension that is contracted splits the weight as well.
// CHECK-LABEL: @merged_heads_are_contracted
// CHECK: %[[W:.*]] = hyc.reshape %{{.*}} : (tensor<32x32xf32>) -> tensor<4x8x32xf32>
// CHECK: hyc.einsum "makb,kbn->man" %{{.*}}, %[[W]]
// CHECK-SAME: -> tensor<2x16x32xf32>
hyc.func @merged_heads_are_contracted(%x: tensor<2x16x4x8xf32>, %w: tensor<32x32xf32>) -> tensor<2x16x32xf32> {
  %0 = hyc.reshape %x : (tensor<2x16x4x8xf32>) -> tensor<32x32xf32>
  %1 = hyc.einsum "mk,kn->mn" %0, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = hyc.reshape %1 : (tensor<32x32xf32>) -> tensor<2x16x32xf32>
  hyc.return %2 : tensor<2x16x32xf32>
}

// -----

// A value with two layouts stays: the other operand is not free to move.
// CHECK-LABEL: @a_residual_in_another_layout_stays
// CHECK: hyc.reshape
// CHECK: hyc.add
hyc.func @a_residual_in_another_layout_stays(%x: tensor<2x16x32xf32>, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = hyc.reshape %x : (tensor<2x16x32xf32>) -> tensor<32x32xf32>
  %1 = hyc.add %0, %y : tensor<32x32xf32>
  hyc.return %1 : tensor<32x32xf32>
}

// -----

// Statistics kept with a dimension of size 1 lose it.
// CHECK-LABEL: @kept_dimensions_of_size_one
// CHECK-NOT: tensor<2x4x1xf32>
// CHECK: hyc.return
hyc.func @kept_dimensions_of_size_one(%v: tensor<2x4xf32>) -> tensor<2x4x8xf32> {
  %0 = hyc.reshape %v : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %c = hyc.constant dense<1.0e-5> : tensor<2x4x1xf32>
  %1 = hyc.add %0, %c : tensor<2x4x1xf32>
  %2 = hyc.sqrt %1 : tensor<2x4x1xf32>
  %3 = hyc.reshape %2 : (tensor<2x4x1xf32>) -> tensor<2x4xf32>
  %4 = hyc.broadcast %3 [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x8xf32>
  hyc.return %4 : tensor<2x4x8xf32>
}

// -----

// CHECK-LABEL: @softmax_over_merged_heads
// CHECK: %[[P:.*]] = hyc.softmax %{{.*}} : tensor<2x4x16x16xf32>
// CHECK: hyc.einsum {{.*}} %[[P]]
hyc.func @softmax_over_merged_heads(%s: tensor<2x4x16x16xf32>, %v: tensor<8x16x8xf32>) -> tensor<8x16x8xf32> {
  %0 = hyc.reshape %s : (tensor<2x4x16x16xf32>) -> tensor<8x16x16xf32>
  %1 = hyc.softmax %0 : tensor<8x16x16xf32>
  %2 = hyc.einsum "amk,akn->amn" %1, %v : (tensor<8x16x16xf32>, tensor<8x16x8xf32>) -> tensor<8x16x8xf32>
  hyc.return %2 : tensor<8x16x8xf32>
}

// -----

// A copy of the weight a sample, as a linear layer over a transposed batch is exported: the samples' letter leaves it.
// What the result lacks stays, since that sums over copies.
// CHECK-LABEL: @repeated_weight
// CHECK-SAME: (%[[X:.*]]: tensor<4x2x8xf32>, %[[W:.*]]: tensor<16x8xf32>)
// CHECK-NEXT: %[[Y:.*]] = hyc.einsum "abc,dc->bad" %[[X]], %[[W]]
// CHECK-NEXT: %[[B:.*]] = hyc.broadcast %[[W]] [1, 2]
// CHECK-NEXT: %[[Z:.*]] = hyc.einsum "abc,adc->bd" %[[X]], %[[B]]
// CHECK-NEXT: hyc.return %[[Y]], %[[Z]]
hyc.func @repeated_weight(%x: tensor<4x2x8xf32>, %w: tensor<16x8xf32>) -> (tensor<2x4x16xf32>, tensor<2x16xf32>) {
  %0 = hyc.transpose %w [1, 0] : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %1 = hyc.broadcast %0 [1, 2] : (tensor<8x16xf32>) -> tensor<2x8x16xf32>
  %2 = hyc.einsum "abc,bcd->bad" %x, %1 : (tensor<4x2x8xf32>, tensor<2x8x16xf32>) -> tensor<2x4x16xf32>
  %3 = hyc.broadcast %w [1, 2] : (tensor<16x8xf32>) -> tensor<4x16x8xf32>
  %4 = hyc.einsum "abc,adc->bd" %x, %3 : (tensor<4x2x8xf32>, tensor<4x16x8xf32>) -> tensor<2x16xf32>
  hyc.return %2, %4 : tensor<2x4x16xf32>, tensor<2x16xf32>
}

// -----

// Zeros around what a convolution reads are its padding, at either end, under others that are there; other numbers, and
// zeros beside the channels, are not.
// CHECK-LABEL: @padding
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x5x6xf32>
// CHECK: hyc.convolution %[[X]], %{{.*}} strides [2, 1] dilations [1, 1] pads [1, 3] [2, 0]
// CHECK: %[[ONES:.*]] = hyc.concat
// CHECK: %[[CHANNELS:.*]] = hyc.concat
// CHECK: hyc.convolution %[[CHANNELS]], %{{.*}} pads [0, 0] [0, 0]
hyc.func @padding(%x: tensor<2x3x5x6xf32>, %w: tensor<4x3x3x3xf32>, %v: tensor<4x4x3x3xf32>) -> (tensor<2x4x3x7xf32>, tensor<2x4x4x4xf32>) {
  %c0 = hyc.constant dense<0.0> : tensor<2x3x2x6xf32>
  %c1 = hyc.constant dense<0.0> : tensor<2x3x7x3xf32>
  %0 = hyc.concat %x, %c0 dim 2 {id = "a.concat"} : (tensor<2x3x5x6xf32>, tensor<2x3x2x6xf32>) -> tensor<2x3x7x6xf32>
  %1 = hyc.concat %c1, %0 dim 3 {id = "a.concat.2"} : (tensor<2x3x7x3xf32>, tensor<2x3x7x6xf32>) -> tensor<2x3x7x9xf32>
  %y = hyc.convolution %1, %w strides [2, 1] dilations [1, 1] pads [1, 0] [0, 0] {id = "a"}
      : (tensor<2x3x7x9xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x3x7xf32>
  %c2 = hyc.constant dense<1.0> : tensor<2x3x1x6xf32>
  %c3 = hyc.constant dense<0.0> : tensor<2x1x6x6xf32>
  %2 = hyc.concat %x, %c2 dim 2 {id = "b.concat"} : (tensor<2x3x5x6xf32>, tensor<2x3x1x6xf32>) -> tensor<2x3x6x6xf32>
  %3 = hyc.concat %2, %c3 dim 1 {id = "b.concat.2"} : (tensor<2x3x6x6xf32>, tensor<2x1x6x6xf32>) -> tensor<2x4x6x6xf32>
  %z = hyc.convolution %3, %v strides [1, 1] dilations [1, 1] pads [0, 0] [0, 0] {id = "b"}
      : (tensor<2x4x6x6xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x4x4xf32>
  hyc.return %y, %z : tensor<2x4x3x7xf32>, tensor<2x4x4x4xf32>
}
