// RUN: hyc-opt %s --split-input-file --verify-diagnostics --hyc-check-sizes

// expected-error @+1 {{[sizes.largest] has modules of further sizes inside, but no hyc.size of its own}}
module {
  hyc.func @microbatch() {
    hyc.return
  }
  module @seq_4 attributes {hyc.size = {dim = "seq", size = 4 : i64}} {
  }
}

// -----

module attributes {hyc.size = {dim = "seq", size = 8 : i64}} {
  hyc.func @microbatch() {
    hyc.return
  }
  // expected-error @+1 {{[sizes.largest] is of size seq=16 inside a module of size seq=8, expected a smaller one of seq}}
  module @seq_16 attributes {hyc.size = {dim = "seq", size = 16 : i64}} {
  }
}

// -----

module attributes {hyc.size = {dim = "seq", size = 8 : i64}} {
  hyc.param @w : tensor<4x8xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>}
  hyc.func @microbatch() {
    hyc.return
  }
  module @seq_4 attributes {hyc.size = {dim = "seq", size = 4 : i64}} {
    // expected-error @+1 {{[sizes.states] @w cannot be shared between sizes of seq (give --dim one size, the largest, or another layout): it has dist.sharding #dist.sharding<[{}, {}]> for seq=4, and #dist.sharding<[{}, {tp}]> for seq=8}}
    hyc.param @w : tensor<4x8xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}, {}]>}
    hyc.func @microbatch() {
      hyc.return
    }
  }
}

// -----

module attributes {hyc.size = {dim = "seq", size = 8 : i64}} {
  // expected-error @+1 {{it is there for seq=8, but not for seq=4}}
  hyc.param @w : tensor<4x8xf32> from #hyc.fill<0.5 : f64>
  hyc.func @microbatch() {
    hyc.return
  }
  module @seq_4 attributes {hyc.size = {dim = "seq", size = 4 : i64}} {
    hyc.func @microbatch() {
      hyc.return
    }
  }
}

// -----

module attributes {hyc.size = {dim = "seq", size = 8 : i64}} {
  hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
    hyc.return
  }
  module @seq_4 attributes {hyc.size = {dim = "seq", size = 4 : i64}} {
    // expected-error @+1 {{[sizes.inputs] input "x" is 'tensor<2x5xf32>' for seq=4, and 'tensor<2x8xf32>' for seq=8, expected the same but for dimensions of a sample that are seq; give --dim one size, the largest}}
    hyc.func @microbatch(%x: tensor<2x5xf32> {hyc.input = "x"}) {
      hyc.return
    }
  }
}

// -----

// A number of samples is no size of them.
module attributes {hyc.size = {dim = "batch", size = 8 : i64}} {
  hyc.func @microbatch(%x: tensor<8x3xf32> {hyc.input = "x"}) {
    hyc.return
  }
  module @batch_4 attributes {hyc.size = {dim = "batch", size = 4 : i64}} {
    // expected-error @+1 {{[sizes.inputs] input "x" is 'tensor<4x3xf32>' for batch=4}}
    hyc.func @microbatch(%x: tensor<4x3xf32> {hyc.input = "x"}) {
      hyc.return
    }
  }
}

// -----

module attributes {hyc.size = {dim = "seq", size = 8 : i64}} {
  hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
    hyc.return
  }
  module @seq_4 attributes {hyc.size = {dim = "seq", size = 4 : i64}} {
    // expected-error @+1 {{[sizes.length] no input tells how long a sample is, so that one of seq 8 cannot be known to fit in 4; give the model an input attention_mask (a folder's: --padding-mask), or --dim one size}}
    hyc.func @microbatch(%x: tensor<2x4xf32> {hyc.input = "x"}) {
      hyc.return
    }
  }
}

// -----

// A mask that nobody reads tells nothing: it is not brought.
module attributes {hyc.size = {dim = "seq", size = 8 : i64}} {
  hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}, %m: tensor<2x8xi64> {hyc.input = "attention_mask"}) {
    hyc.return
  }
  module @seq_4 attributes {hyc.size = {dim = "seq", size = 4 : i64}} {
    // expected-error @+1 {{[sizes.length] no input tells how long a sample is}}
    hyc.func @microbatch(%x: tensor<2x4xf32> {hyc.input = "x"}, %m: tensor<2x4xi64> {hyc.input = "attention_mask"}) {
      hyc.return
    }
  }
}

// -----

module attributes {hyc.size = {dim = "seq", size = 8 : i64}} {
  hyc.func @microbatch(%m: tensor<2x8xi64> {hyc.input = "attention_mask"}) {
    %0 = hyc.neg %m {id = "neg"} : tensor<2x8xi64>
    hyc.return
  }
  module @seq_4 attributes {hyc.size = {dim = "seq", size = 4 : i64}} {
    hyc.func @microbatch(%m: tensor<2x4xi64> {hyc.input = "attention_mask"}) {
      %0 = hyc.neg %m {id = "neg"} : tensor<2x4xi64>
      hyc.return
    }
  }
}

// -----

module attributes {hyc.size = {dim = "seq", size = 8 : i64}} {
  hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0 : f64>
  hyc.func @microbatch(%m: tensor<2x8xi64> {hyc.input = "attention_mask"}) {
    %n = hyc.constant {id = "loss.count"} dense<16> : tensor<i64>
    hyc.accumulate %n into @token_count {id = "token_count.accumulate"} : tensor<i64>
    hyc.return
  }
  module @seq_4 attributes {hyc.size = {dim = "seq", size = 4 : i64}} {
    hyc.state @token_count role "token_count" : tensor<i64> from #hyc.fill<0.0 : f64>
    // expected-error @+1 {{[sizes.loss] the loss is a mean over all places of seq, padding too, so that seq=4 would not have that of seq=8; give --dim one size, the largest}}
    hyc.func @microbatch(%m: tensor<2x4xi64> {hyc.input = "attention_mask"}) {
      %n = hyc.constant {id = "loss.count"} dense<8> : tensor<i64>
      hyc.accumulate %n into @token_count {id = "token_count.accumulate"} : tensor<i64>
      hyc.return
    }
  }
}
