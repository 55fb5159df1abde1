// RUN: hyc-opt %s --hyc-attach-loss=loss=causal_lm --split-input-file | FileCheck %s

// Labels are the tokens themselves; each position is compared with the one after it, the last with none.
// CHECK-LABEL: hyc.func @train
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xi64> {hyc.input = "input_ids", hyc.source = "token"}, %[[L:.*]]: tensor<2x4xi64> {hyc.input = "labels", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>)
// CHECK-DAG: %[[NONE:.*]] = hyc.constant {id = "loss.no_label"} dense<-100> : tensor<2x1xi64>
// CHECK-DAG: %[[LATER:.*]] = hyc.slice %[[L]] offsets [0, 1] strides [1, 1] {id = "loss.later_labels"} : (tensor<2x4xi64>) -> tensor<2x3xi64>
// CHECK: %[[LABELS:.*]] = hyc.concat %[[LATER]], %[[NONE]] dim 1 {id = "loss.labels"}
// CHECK: %[[SUM:.*]], %[[COUNT:.*]], %{{.*}} = hyc.cross_entropy %{{.*}}, %[[LABELS]] {id = "loss"}
// CHECK: hyc.return %[[SUM]], %[[COUNT]]
hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.0 : f64>
hyc.func @train(%x: tensor<2x4xi64> {hyc.input = "input_ids"}) -> (tensor<2x4x8xf32> {hyc.output = "logits"}) {
  %w = hyc.read @w : tensor<8x8xf32>
  %logits = hyc.embedding %x, %w {id = "logits"} : (tensor<2x4xi64>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
  hyc.return %logits : tensor<2x4x8xf32>
}

// -----

// What is no token is fed as it is.
// CHECK-LABEL: hyc.func @train
// CHECK-SAME: tensor<2x8xf32> {hyc.input = "pixels", hyc.source = "sample"}
hyc.func @train(%x: tensor<2x8xf32> {hyc.input = "pixels"}) -> (tensor<2x8xf32> {hyc.output = "logits"}) {
  hyc.return %x : tensor<2x8xf32>
}
