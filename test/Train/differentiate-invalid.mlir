// RUN: hyc-opt %s --hyc-differentiate -split-input-file -verify-diagnostics

// expected-error@+1 {{@train returns ('tensor<2x8xf32>'), expected the loss sum, the token count and perhaps how many were right; run hyc-attach-loss first}}
hyc.func @train(%x: tensor<2x8xf32> {hyc.input = "x"}) -> tensor<2x8xf32> {
  hyc.return %x : tensor<2x8xf32>
}

// -----

hyc.param @w : tensor<f32> from #hyc.fill<0.0> frozen
// expected-error@+1 {{no trainable parameter reaches the loss}}
hyc.func @train(%n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %w, %m : tensor<f32>, tensor<i64>
}

// -----

hyc.param @w : tensor<4xf32> from #hyc.fill<0.0>
hyc.func @train(%n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<4xf32>
  // expected-error@+1 {{has no gradient, but a trainable parameter reaches the loss through it}}
  %g = hyc.gelu_grad %w, %w : tensor<4xf32>
  %s = hyc.reduce sum %g [0] : (tensor<4xf32>) -> tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %s, %m : tensor<f32>, tensor<i64>
}

// -----

hyc.param @w : tensor<2x4xf32> from #hyc.fill<0.0>
hyc.param @s : tensor<4xf32> from #hyc.fill<0.0>
hyc.func @train(%n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<2x4xf32>
  %s = hyc.read @s : tensor<4xf32>
  // expected-error@+1 {{has no gradient through result 1, a statistic kept for its own gradient}}
  %y, %mean, %rstd = hyc.layer_norm %w, %s, %s epsilon 1.0e-5 : (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  %sum = hyc.reduce sum %mean [0] : (tensor<2xf32>) -> tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %sum, %m : tensor<f32>, tensor<i64>
}

// -----

hyc.param @w : tensor<f32> from #hyc.fill<0.0>
// expected-warning@+1 {{parameter @unused does not reach the loss and stays as it is}}
hyc.param @unused : tensor<f32> from #hyc.fill<0.0>
hyc.func @train(%n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %w, %m : tensor<f32>, tensor<i64>
}

// -----

hyc.param @w : tensor<f32> from #hyc.fill<0.0> frozen
// expected-error@+1 {{no trainable parameter reaches the loss: there is nothing to train; parameters that are frozen, by the model (requires_grad was False) or by --freeze: 1}}
hyc.func @train(%n: tensor<i64> {hyc.input = "n"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<f32>
  %m = hyc.neg %n : tensor<i64>
  hyc.return %w, %m : tensor<f32>, tensor<i64>
}
