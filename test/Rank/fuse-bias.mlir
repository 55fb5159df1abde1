// RUN: hyc-opt %s --hyc-fuse-bias | FileCheck %s
// Of 16 bits the product is rounded first, but for GPUs, whose library rounds once.
// RUN: sed 's/f32/bf16/g' %s | hyc-opt --hyc-fuse-bias | FileCheck %s --check-prefix=NARROW
// NARROW-NOT: rank.linear
// RUN: sed -e 's/f32/bf16/g' -e '1i module attributes {rank.target = "cuda"} {' -e '$a }' %s | hyc-opt --hyc-fuse-bias | FileCheck %s --check-prefix=GPU
// GPU: rank.linear "sk,kn->sn"

// CHECK-LABEL: hyc.func @bias_along_the_last_letter_is_added_by_the_product
// CHECK: %[[Y:.*]] = rank.linear "sk,kn->sn" %{{.*}}, %{{.*}} bias %{{.*}} {id = "fc1"}
// CHECK-NOT: hyc.broadcast
// CHECK: hyc.return %[[Y]]
hyc.func @bias_along_the_last_letter_is_added_by_the_product(%x: tensor<4x3xf32>, %w: tensor<3x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %h = hyc.einsum "sk,kn->sn" %x, %w {id = "fc1"} : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
  %r = hyc.broadcast %b [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = hyc.add %h, %r : tensor<4x8xf32>
  hyc.return %y : tensor<4x8xf32>
}

// CHECK-LABEL: hyc.func @bias_over_factored_letters
// CHECK: rank.linear "sk,kthd->sthd"
hyc.func @bias_over_factored_letters(%x: tensor<4x3xf32>, %w: tensor<3x3x2x5xf32>, %b: tensor<3x2x5xf32>) -> tensor<4x3x2x5xf32> {
  %h = hyc.einsum "sk,kthd->sthd" %x, %w : (tensor<4x3xf32>, tensor<3x3x2x5xf32>) -> tensor<4x3x2x5xf32>
  %r = hyc.broadcast %b [1, 2, 3] : (tensor<3x2x5xf32>) -> tensor<4x3x2x5xf32>
  %y = hyc.add %r, %h : tensor<4x3x2x5xf32>
  hyc.return %y : tensor<4x3x2x5xf32>
}

// CHECK-LABEL: hyc.func @bias_along_rows_stays
// CHECK: hyc.add
hyc.func @bias_along_rows_stays(%x: tensor<4x3xf32>, %w: tensor<3x8xf32>, %b: tensor<4xf32>) -> tensor<4x8xf32> {
  %h = hyc.einsum "sk,kn->sn" %x, %w : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
  %r = hyc.broadcast %b [0] : (tensor<4xf32>) -> tensor<4x8xf32>
  %y = hyc.add %h, %r : tensor<4x8xf32>
  hyc.return %y : tensor<4x8xf32>
}

// CHECK-LABEL: hyc.func @product_with_another_user_stays
// CHECK: hyc.einsum
// CHECK: hyc.add
hyc.func @product_with_another_user_stays(%x: tensor<4x3xf32>, %w: tensor<3x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %h = hyc.einsum "sk,kn->sn" %x, %w : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
  %r = hyc.broadcast %b [1] : (tensor<8xf32>) -> tensor<4x8xf32>
  %y = hyc.add %h, %r : tensor<4x8xf32>
  hyc.return %y, %h : tensor<4x8xf32>, tensor<4x8xf32>
}
