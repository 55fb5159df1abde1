// RUN: hyc-opt %s --hyc-attach-loss="logits=logits" -split-input-file -verify-diagnostics

// expected-error@+1 {{--logits names output "logits", which the model does not have: its outputs are scores, loss}}
hyc.func @train(%x: tensor<2x8xf32> {hyc.input = "x"})
    -> (tensor<2x8xf32> {hyc.output = "scores"}, tensor<2x8xf32> {hyc.output = "loss"}) {
  hyc.return %x, %x : tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// expected-error@+1 {{output "logits" has type 'tensor<2x8xi64>', expected floating-point scores with the vocabulary as last dimension; --logits names another output}}
hyc.func @train(%x: tensor<2x8xi64> {hyc.input = "x"}) -> (tensor<2x8xi64> {hyc.output = "logits"}) {
  hyc.return %x : tensor<2x8xi64>
}

// -----

// expected-error@+1 {{output "logits" has type 'tensor<f32>', expected floating-point scores with the vocabulary as last dimension; if it is the model's own loss, give --loss logits}}
hyc.func @train(%x: tensor<f32> {hyc.input = "x"}) -> (tensor<f32> {hyc.output = "logits"}) {
  hyc.return %x : tensor<f32>
}

// -----

// expected-error@+1 {{--labels names input "labels" of type 'tensor<3xi64>', expected integers of the logits' leading shape, as in 'tensor<2xi64>'}}
hyc.func @train(%x: tensor<2x8xf32> {hyc.input = "x"}, %l: tensor<3xi64> {hyc.input = "labels"})
    -> (tensor<2x8xf32> {hyc.output = "logits"}) {
  hyc.return %x : tensor<2x8xf32>
}

// -----

// expected-error@+1 {{has no function @train}}
module {}

// -----

// expected-error@+1 {{input "positions" has type 'tensor<1x4xi64>', but "input_ids" has 2 samples; expected the samples of a micro-batch}}
hyc.func @train(%x: tensor<2x4xi64> {hyc.input = "input_ids"}, %p: tensor<1x4xi64> {hyc.input = "positions"})
    -> (tensor<2x4x8xf32> {hyc.output = "logits"}) {
  %0 = hyc.constant dense<0.0> : tensor<2x4x8xf32>
  hyc.return %0 : tensor<2x4x8xf32>
}
