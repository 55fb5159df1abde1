// What phase 3 has to leave decided; one case for each thing that may be missing.
// RUN: hyc-opt %s --hyc-verify-plan --split-input-file --verify-diagnostics

// expected-error @+1 {{has no dist.mesh}}
module {
  hyc.func @microbatch() { hyc.return }
}

// -----

// expected-error @+1 {{has no @microbatch}}
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
}

// -----

module {
  // expected-error @+1 {{has 2 stages, but there are 1 schedules}}
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 [#dist.do<begin_step>]
  hyc.func @microbatch() { hyc.return }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 [#dist.do<begin_step>]
  // expected-error @+1 {{has no dist.sharding}}
  hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}
  hyc.func @microbatch() { hyc.return }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 [#dist.do<begin_step>]
  // expected-error @+1 {{has no dist.stages}}
  hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}
  hyc.func @microbatch() { hyc.return }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 [#dist.do<begin_step>]
  hyc.func @microbatch(%x: tensor<4xf32> {hyc.input = "x"}) {
    // expected-error @+1 {{has no dist.shardings}}
    %y = hyc.neg %x {dist.stage = 0} : tensor<4xf32>
    hyc.return
  }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 [#dist.do<begin_step>]
  hyc.func @microbatch(%x: tensor<4xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{}]>}) {
    // expected-error @+1 {{has no dist.stage}}
    %y = hyc.neg %x {dist.shardings = [#dist.sharding<[{}]>]} : tensor<4xf32>
    hyc.return
  }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  dist.schedule stage 0 slots 1 [#dist.do<begin_step>]
  hyc.func @microbatch(%x: tensor<4xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{}]>}) {
    // expected-error @+1 {{is on stage 1, expected one below 1}}
    %y = hyc.neg %x {dist.shardings = [#dist.sharding<[{}]>], dist.stage = 1} : tensor<4xf32>
    hyc.return
  }
}
