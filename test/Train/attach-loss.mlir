// RUN: hyc-opt %s --hyc-attach-loss="logits=logits" -split-input-file | FileCheck %s

// The labels input is added, and each input says how it is filled.
hyc.func @train(%x: tensor<2x4xi64> {hyc.input = "input_ids"}, %p: tensor<2x4x8xf32> {hyc.input = "p", hyc.source = "token"})
    -> (tensor<2x4x8xf32> {hyc.output = "logits"}, tensor<2x4xi64> {hyc.output = "argmax"}) {
  hyc.return %p, %x : tensor<2x4x8xf32>, tensor<2x4xi64>
}
// CHECK: hyc.func @train(%[[X:.*]]: tensor<2x4xi64> {hyc.input = "input_ids", hyc.source = "token"},
// CHECK-SAME: %[[P:[^:]*]]: tensor<2x4x8xf32>
// CHECK-SAME: %[[L:[^:]*]]: tensor<2x4xi64> {hyc.input = "labels", hyc.source = "next_token"})
// CHECK-SAME: -> (tensor<f32>, tensor<i64>)
// CHECK: %[[SUM:.*]], %[[COUNT:.*]], %{{.*}} = hyc.cross_entropy %[[P]], %[[L]] {id = "loss"}
// CHECK: hyc.return %[[SUM]], %[[COUNT]] : tensor<f32>, tensor<i64>

// -----

// An input that already has the labels' name is used.
hyc.func @train(%x: tensor<2x4x8xf32> {hyc.input = "x", hyc.source = "token"}, %l: tensor<2x4xi32> {hyc.input = "labels"})
    -> (tensor<2x4x8xf32> {hyc.output = "logits"}) {
  hyc.return %x : tensor<2x4x8xf32>
}
// CHECK: hyc.func @train(%{{.*}}: tensor<2x4x8xf32> {{.*}}, %[[L:.*]]: tensor<2x4xi32> {hyc.input = "labels", hyc.source = "next_token"})
// CHECK: %[[W:.*]] = hyc.convert %[[L]] {{.*}}: (tensor<2x4xi32>) -> tensor<2x4xi64>
// CHECK: hyc.cross_entropy %{{.*}}, %[[W]]

// -----

// What is no sequence of tokens is read sample by sample, and so are its labels.
hyc.func @train(%x: tensor<2x3x4xf32> {hyc.input = "pixels"}) -> (tensor<2x8xf32> {hyc.output = "logits"}) {
  %0 = hyc.constant dense<0.0> : tensor<2x8xf32>
  hyc.return %0 : tensor<2x8xf32>
}
// CHECK: hyc.func @train(%{{.*}}: tensor<2x3x4xf32> {hyc.input = "pixels", hyc.source = "sample"},
// CHECK-SAME: tensor<2xi64> {hyc.input = "labels", hyc.source = "sample"})

// -----

// Two inputs of tokens are not the same tokens.
hyc.func @train(%x: tensor<2x4xi64> {hyc.input = "input_ids"}, %t: tensor<2x4xi64> {hyc.input = "token_type_ids"})
    -> (tensor<2x4x8xf32> {hyc.output = "logits"}) {
  %0 = hyc.constant dense<0.0> : tensor<2x4x8xf32>
  hyc.return %0 : tensor<2x4x8xf32>
}
// CHECK: hyc.func @train(%{{.*}} {hyc.input = "input_ids", hyc.source = "sample"},
// CHECK-SAME: {hyc.input = "token_type_ids", hyc.source = "sample"},
// CHECK-SAME: {hyc.input = "labels", hyc.source = "sample"})

// -----

// Scores of 64 bits are compared in 32, in which the loss is computed; its sum has 64 bits on the way.
hyc.func @train(%x: tensor<2x4xi64> {hyc.input = "input_ids"}, %p: tensor<2x4x8xf64> {hyc.input = "p", hyc.source = "token"})
    -> (tensor<2x4x8xf64> {hyc.output = "logits"}) {
  hyc.return %p : tensor<2x4x8xf64>
}
// CHECK: %[[SCORES:.*]] = hyc.convert %{{.*}} {id = "loss.scores"} : (tensor<2x4x8xf64>) -> tensor<2x4x8xf32>
// CHECK: hyc.cross_entropy %[[SCORES]], %{{.*}} {id = "loss"}
