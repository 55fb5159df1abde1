// RUN: hyc-opt %s --hyc-verify-train -split-input-file -verify-diagnostics

// expected-error@+1 {{[train.functions] has no @microbatch}}
module {
}

// -----

module {
  // expected-error@+1 {{[train.functions] @train is still there}}
  hyc.func @train() {
    hyc.return
  }
}

// -----

module {
  // expected-error@+1 {{[train.inputs] argument 0 of @microbatch has no hyc.source}}
  hyc.func @microbatch(%x: tensor<f32> {hyc.input = "x"}) {
    hyc.return
  }
  hyc.func @apply() {
    hyc.return
  }
}

// -----

module {
  // expected-error@+1 {{[train.inputs] argument 0 has hyc.source "tokens", expected one of token, next_token, own_token, next_own_token, position, presence, sample, random}}
  hyc.func @microbatch(%x: tensor<2x4xi64> {hyc.input = "x", hyc.source = "tokens"}) {
    hyc.return
  }
  hyc.func @apply() {
    hyc.return
  }
}

// -----

module {
  hyc.func @microbatch() {
    // expected-error@+1 {{[train.ids] has no id}}
    %0 = hyc.constant dense<0.0> : tensor<f32>
    hyc.return
  }
  hyc.func @apply() {
    hyc.return
  }
}

// -----

module {
  hyc.func @microbatch() {
    // expected-note@+1 {{that op is here}}
    %0 = hyc.constant {id = "a"} dense<0.0> : tensor<f32>
    hyc.return
  }
  hyc.func @apply() {
    // expected-error@+1 {{[train.ids] has id "a", which another op has}}
    %0 = hyc.constant {id = "a"} dense<0.0> : tensor<f32>
    hyc.return
  }
}

// -----

// expected-error@+1 {{[train.states] has 0 states of role "loss_sum", expected 1}}
module {
  hyc.func @microbatch() {
    hyc.return
  }
  hyc.func @apply() {
    hyc.return
  }
}

// -----

module {
  hyc.param @w : tensor<4xf32> from #hyc.fill<0.0>
  hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
  hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>
  hyc.state @step role "step" : tensor<i64> from #hyc.fill<0.0>
  hyc.state @grad_norm role "grad_norm" : tensor<f32> from #hyc.fill<0.0>
  // expected-error@+1 {{[train.gradients] is accumulated 0 times, counted in the norm 1 times and applied 0 times}}
  hyc.state @w.grad of @w role "gradient" : tensor<4xf32> from #hyc.fill<0.0>
  hyc.func @microbatch() {
    hyc.return
  }
  hyc.func @apply() {
    %0 = hyc.sum_of_squares [@w.grad] {id = "apply.sum_of_squares"} : tensor<f64>
    hyc.return
  }
}

// -----

module {
  hyc.param @w : tensor<4xf32> from #hyc.fill<0.0>
  hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
  hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>
  hyc.state @step role "step" : tensor<i64> from #hyc.fill<0.0>
  hyc.state @grad_norm role "grad_norm" : tensor<f32> from #hyc.fill<0.0>
  hyc.func @microbatch() {
    %0 = hyc.read @w {id = "w"} : tensor<4xf32>
    // expected-error@+1 {{[train.effects] stands in @microbatch, which only reads parameters, writes frozen ones in forward, and accumulates into state}}
    hyc.write %0 into @w {id = "write"} : tensor<4xf32>
    hyc.return
  }
  hyc.func @apply() {
    hyc.return
  }
}

// -----

module {
  hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
  hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>
  hyc.state @step role "step" : tensor<i64> from #hyc.fill<0.0>
  hyc.state @grad_norm role "grad_norm" : tensor<f32> from #hyc.fill<0.0>
  hyc.func @microbatch() {
    // expected-note@+1 {{computed here}}
    %0 = hyc.constant {id = "seed", hyc.backward} dense<0.0> : tensor<f32>
    // expected-error@+1 {{[train.order] belongs to forward but reads a backward value}}
    %1 = hyc.neg %0 {id = "neg"} : tensor<f32>
    hyc.return
  }
  hyc.func @apply() {
    hyc.return
  }
}

// -----

module {
  hyc.param @w : tensor<4xf32> from #hyc.fill<0.0>
  hyc.state @loss_sum role "loss_sum" : tensor<f32> from #hyc.fill<0.0>
  hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0>
  hyc.state @step role "step" : tensor<i64> from #hyc.fill<0.0>
  hyc.state @grad_norm role "grad_norm" : tensor<f32> from #hyc.fill<0.0>
  hyc.func @microbatch() {
    %0 = hyc.read @w {id = "w"} : tensor<4xf32>
    // expected-error@+1 {{[train.effects] stands in @microbatch, which only reads parameters, writes frozen ones in forward, and accumulates into state}}
    hyc.write %0 into @w {id = "w.write"} : tensor<4xf32>
    hyc.return
  }
  hyc.func @apply() {
    hyc.return
  }
}

// -----

module {
  hyc.func @microbatch() {
    %0 = hyc.constant {id = "x"} dense<0.0> : tensor<f32>
    // expected-error@+1 {{[train.stops] keeps a gradient that has been built; run hyc-differentiate}}
    %1 = hyc.stop_gradient %0 {id = "x.detach"} : tensor<f32>
    hyc.return
  }
  hyc.func @apply() {
    hyc.return
  }
}
