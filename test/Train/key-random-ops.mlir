// Every op that draws gets a column of one input of keys, whole and in pieces alike.
// RUN: hyc-opt %s --split-input-file --hyc-key-random-ops | FileCheck %s
// RUN: hyc-opt %s --split-input-file --hyc-key-random-ops --hyc-differentiate 2>&1 | FileCheck %s --check-prefix=GRAD

hyc.param @w : tensor<8x8xf32> from #hyc.fill<1.0>
hyc.func @train(%x: tensor<2x4x8xf32> {hyc.input = "x", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<8x8xf32>
  %h = hyc.einsum "bsk,kn->bsn" %x, %w {id = "fc"} : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %y = hyc.dropout %h rate 1.0e-1 {id = "drop"} : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %q = hyc.reshape %y : (tensor<2x4x8xf32>) -> tensor<2x4x2x4xf32>
  %o, %lse = hyc.attention %q, %q, %q scale 5.0e-1 dropout 2.0e-1 {id = "attn"} : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x2x4xf32>)
  // Tokens and samples in one dimension.
  %t = hyc.reshape %o : (tensor<2x4x2x4xf32>) -> tensor<8x8xf32>
  %z = hyc.dropout %t rate 1.0e-1 {id = "drop"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = hyc.reduce sum %z [0, 1] : (tensor<8x8xf32>) -> tensor<f32>
  %count = hyc.constant dense<1> : tensor<i64>
  hyc.return %loss, %count : tensor<f32>, tensor<i64>
}
// CHECK: hyc.func @train(%{{.*}}: tensor<2x4x8xf32> {{.*}}, %[[KEYS:.*]]: tensor<2x3xi64> {hyc.input = "random_keys", hyc.source = "random", hyc.streams = ["drop", "attn", "drop.2"]})
// CHECK: %[[MASK:.*]] = hyc.dropout_mask %[[KEYS]] column 0 rate 1.000000e-01 {id = "drop.mask"} : (tensor<2x3xi64>) -> tensor<2x4x8xi1>
// CHECK-NEXT: hyc.dropout %{{.*}} mask %[[MASK]] rate 1.000000e-01 {id = "drop"}
// CHECK: hyc.attention {{.*}} random %[[KEYS]] dropout 2.000000e-01 {column = 1 : i64, id = "attn"}
// CHECK: %[[FLAT:.*]] = hyc.dropout_mask %[[KEYS]] column 2 rate 1.000000e-01 {{.*}} -> tensor<2x4x8xi1>
// CHECK-NEXT: %[[SHAPED:.*]] = hyc.reshape %[[FLAT]] {{.*}} -> tensor<8x8xi1>
// CHECK-NEXT: hyc.dropout %{{.*}} mask %[[SHAPED]]

// The gradient drops by the same masks, and asks for nothing else.
// GRAD: %[[MASK:.*]] = hyc.dropout_mask %[[KEYS:.*]] column 0
// GRAD: hyc.attention_grad {{.*}} scale 5.000000e-01 random %[[KEYS]] dropout 2.000000e-01 {column = 1 : i64, {{.*}}tensor<2x3xi64>)
// GRAD: hyc.dropout %{{.*}} mask %[[MASK]] rate 1.000000e-01 {hyc.backward, id = "drop.grad"}

// -----

// Samples in another dimension than the first; nothing that draws leaves a function alone.
hyc.param @w : tensor<2x4x8xf32> from #hyc.fill<1.0>
hyc.func @train(%i: tensor<2x4x8xf32> {hyc.input = "x", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<2x4x8xf32>
  %x = hyc.mul %i, %w : tensor<2x4x8xf32>
  %t = hyc.transpose %x [1, 0, 2] : (tensor<2x4x8xf32>) -> tensor<4x2x8xf32>
  %y = hyc.dropout %t rate 1.0e-1 {id = "drop"} : (tensor<4x2x8xf32>) -> tensor<4x2x8xf32>
  %loss = hyc.reduce sum %y [0, 1, 2] : (tensor<4x2x8xf32>) -> tensor<f32>
  %count = hyc.constant dense<1> : tensor<i64>
  hyc.return %loss, %count : tensor<f32>, tensor<i64>
}
// CHECK: %[[DRAWN:.*]] = hyc.dropout_mask %{{.*}} column 0 rate 1.000000e-01 {{.*}} -> tensor<2x4x8xi1>
// CHECK-NEXT: %[[TURNED:.*]] = hyc.transpose %[[DRAWN]] [1, 0, 2]
// CHECK-NEXT: hyc.dropout %{{.*}} mask %[[TURNED]]

// -----

// What depends on no input and has no samples is drawn once, with the first sample's key.
hyc.param @scale : tensor<3xf32> from #hyc.fill<1.0>
hyc.func @train(%x: tensor<2x4xf32> {hyc.input = "x", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %ones = hyc.constant dense<1.0> : tensor<4x3xf32>
  %drawn = hyc.dropout %ones rate 5.0e-1 {id = "bits"} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %y = hyc.einsum "bk,kn->bn" %x, %drawn : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %scale = hyc.read @scale : tensor<3xf32>
  %scales = hyc.broadcast %scale [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %scaled = hyc.mul %y, %scales : tensor<2x3xf32>
  %loss = hyc.reduce sum %scaled [0, 1] : (tensor<2x3xf32>) -> tensor<f32>
  %count = hyc.constant dense<1> : tensor<i64>
  hyc.return %loss, %count : tensor<f32>, tensor<i64>
}
// CHECK: %[[KEY:.*]] = hyc.slice %[[KEYS:.*]] {{.*}} : (tensor<2x1xi64>) -> tensor<1x1xi64>
// CHECK-NEXT: %[[MASK:.*]] = hyc.dropout_mask %[[KEY]] column 0 {{.*}} : (tensor<1x1xi64>) -> tensor<1x4x3xi1>
// CHECK-NEXT: hyc.reshape %[[MASK]] {{.*}} -> tensor<4x3xi1>
