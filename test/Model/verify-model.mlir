// RUN: hyc-opt %s --hyc-verify-model -split-input-file -verify-diagnostics

// expected-error@+1 {{[model.entry] has no @train}}
module {
}

// -----

module {
  // expected-error@+1 {{[model.entry] input 0 has no hyc.input}}
  hyc.func @train(%x: tensor<4xf32>) {
    hyc.return
  }
}

// -----

module {
  // expected-error@+1 {{[model.entry] has two outputs called "y"}}
  hyc.func @train(%x: tensor<4xf32> {hyc.input = "x"}) -> (tensor<4xf32> {hyc.output = "y"}, tensor<4xf32> {hyc.output = "y"}) {
    hyc.return %x, %x : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

module {
  hyc.func @train(%x: tensor<4xf32> {hyc.input = "x"}) -> (tensor<4xf32> {hyc.output = "y"}) {
    // expected-error@+1 {{[model.ids] has no id}}
    %0 = hyc.neg %x : tensor<4xf32>
    hyc.return %0 : tensor<4xf32>
  }
}

// -----

module {
  // expected-error@+1 {{[model.effects] is state, which no model of phase 1 has}}
  hyc.state @step role "step" : tensor<i64> from #hyc.fill<0.0>
  hyc.func @train() {
    hyc.return
  }
}

// -----

module {
  // expected-error@+1 {{[model.values] starts from 7 : i64, expected #hyc.file, #hyc.parts, #hyc.normal, #hyc.uniform, #hyc.fill or #hyc.sinusoids}}
  hyc.param @w : tensor<4xf32> from 7 : i64
  hyc.func @train() {
    hyc.return
  }
}

// -----

module {
  hyc.param @trained : tensor<4xf32> from #hyc.fill<0.0>
  hyc.func @train(%x: tensor<4xf32> {hyc.input = "x"}) {
    // expected-error@+1 {{[model.effects] writes @trained, expected a frozen parameter: nothing but the model changes a buffer}}
    hyc.write %x into @trained {id = "w"} : tensor<4xf32>
    hyc.return
  }
}

// -----

module {
  hyc.param @buffer : tensor<4xf32> from #hyc.fill<0.0> frozen
  hyc.func @train(%x: tensor<4xf32> {hyc.input = "x"}) {
    hyc.write %x into @buffer {id = "w"} : tensor<4xf32>
    // expected-error@+1 {{[model.effects] writes @buffer a second time}}
    hyc.write %x into @buffer {id = "w.2"} : tensor<4xf32>
    hyc.return
  }
}
