// RUN: hyc-opt %s --split-input-file --verify-diagnostics --hyc-apply-forms | FileCheck %s

// lse has no reader, and no piece of its own.
hyc.func @train(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x2x8xf32>, %keys: tensor<2x1xi64>) -> (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) {
  %y, %lse = hyc.attention %q, %k, %k scale 5.0e-1 random %keys dropout 1.0e-1 {hyc.form = "decomposed", id = "attn"} : (tensor<2x3x4x8xf32>, tensor<2x3x2x8xf32>, tensor<2x3x2x8xf32>, tensor<2x1xi64>) -> (tensor<2x3x4x8xf32>, tensor<2x4x3xf32>)
  %z, %whole = hyc.attention %y, %k, %k scale 5.0e-1 {id = "whole"} : (tensor<2x3x4x8xf32>, tensor<2x3x2x8xf32>, tensor<2x3x2x8xf32>) -> (tensor<2x3x4x8xf32>, tensor<2x4x3xf32>)
  hyc.return %y, %z : tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>
}
// CHECK: hyc.einsum "bsgrd,btgd->bgrst" %{{.*}} {id = "attn.scores"}
// CHECK: %[[P:.*]] = hyc.softmax %{{.*}} {id = "attn.weights"} : tensor<2x2x2x3x3xf32>
// CHECK-NEXT: %[[MASK:.*]] = hyc.dropout_mask %{{.*}} column 0 rate 1.000000e-01 {id = "attn.dropout.mask"} : (tensor<2x1xi64>) -> tensor<2x2x2x3x3xi1>
// CHECK-NEXT: %[[D:.*]] = hyc.dropout %[[P]] mask %[[MASK]] rate 1.000000e-01 {id = "attn.dropout"}
// CHECK-NEXT: hyc.einsum "bgrst,btgd->bsgrd" %[[D]]
// CHECK-NOT: hyc.log
// CHECK: hyc.attention {{.*}} {id = "whole"}

// -----

hyc.func @train(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error@+1 {{"x" has no decomposition}}
  %y = hyc.exp %x {hyc.form = "decomposed", id = "x"} : tensor<2x4xf32>
  hyc.return %y : tensor<2x4xf32>
}

// -----

hyc.func @train(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error@+1 {{hyc.form is "flat", expected "decomposed"}}
  %y = hyc.gelu %x {hyc.form = "flat", id = "x"} : tensor<2x4xf32>
  hyc.return %y : tensor<2x4xf32>
}
