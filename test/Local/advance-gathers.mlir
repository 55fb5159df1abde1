// RUN: hyc-opt %s --hyc-advance-gathers | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: hyc-opt %s --hyc-record-policies="policies=gathers_ahead=2" --hyc-advance-gathers | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: hyc-opt %s --hyc-record-policies="policies=gathers_ahead=0" --hyc-advance-gathers | FileCheck %s --check-prefixes=CHECK,NONE

// What forward has saved as a shard is gathered while the product before its use computes; a reshape of it goes along.
// CHECK-LABEL: hyc.func @backward.0
// TWO-NEXT: hyc.reshape
// TWO-NEXT: dist.all_gather_start {{.*}}cause = "saved"
// CHECK-NEXT: hyc.einsum {{.*}}id = "first"
// CHECK: hyc.exp
// ONE-NEXT: hyc.reshape
// ONE-NEXT: dist.all_gather_start {{.*}}cause = "saved"
// CHECK: hyc.einsum {{.*}}id = "second"
// CHECK: dist.all_reduce_start
// NONE: dist.all_gather_start {{.*}}cause = "saved"
// NONE-NEXT: dist.wait
// CHECK: hyc.einsum {{.*}}id = "use"
//
// What is made a product before has nothing to go on beside but that product's successor.
// CHECK: hyc.einsum {{.*}}id = "maker"
// CHECK-NEXT: dist.all_gather_start {{.*}}cause = "made"
// CHECK: hyc.return
hyc.func @backward.0(%shard: tensor<8xf32>, %dy: tensor<4x4xf32>, %w: tensor<4x4xf32>) {
  %first = hyc.einsum "ab,cb->ac" %dy, %w {id = "first"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %act = hyc.exp %first : tensor<4x4xf32>
  %second = hyc.einsum "ab,cb->ac" %act, %w {id = "second"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = dist.all_reduce_start sum %second over <{tp}> {cause = "second"} : tensor<4x4xf32> -> <tensor<4x4xf32>>
  %rows = hyc.reshape %shard : (tensor<8xf32>) -> tensor<2x4xf32>
  %q = dist.all_gather_start %rows dim 0 over <{tp}> {cause = "saved"} : tensor<2x4xf32> -> <tensor<4x4xf32>>
  %x = dist.wait %q : <tensor<4x4xf32>> -> tensor<4x4xf32>
  %dw = hyc.einsum "ab,ac->bc" %x, %act {id = "use"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dx = dist.wait %p : <tensor<4x4xf32>> -> tensor<4x4xf32>
  %maker = hyc.einsum "ab,bc->ac" %dx, %dw {id = "maker"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %r = dist.all_gather_start %maker dim 0 over <{tp}> {cause = "made"} : tensor<4x4xf32> -> <tensor<8x4xf32>>
  %made = dist.wait %r : <tensor<8x4xf32>> -> tensor<8x4xf32>
  %last = hyc.exp %made : tensor<8x4xf32>
  hyc.return
}
