// Functions of phase 4 that do not fit together: what one gives, the other has to take, with the same type.
// RUN: hyc-opt %s --hyc-verify-local --split-input-file --verify-diagnostics

// expected-error @+1 {{has no dist.mesh}}
module {
}

// -----

// expected-error @+1 {{has no @backward.0}}
module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  hyc.func @forward.0() { hyc.return }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  hyc.func @forward.0() { hyc.return }
  // expected-error @+1 {{takes hyc.saved "act", which @forward.0 does not give}}
  hyc.func @backward.0(%a: tensor<4xf32> {hyc.saved = "act"}) { hyc.return }
  hyc.func @reduce.0() { hyc.return }
  hyc.func @apply.0() { hyc.return }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  // expected-error @+1 {{gives hyc.saved "act", which @backward.0 does not take}}
  hyc.func @forward.0(%x: tensor<4xf32> {hyc.input = "x"}) -> (tensor<4xf32> {hyc.saved = "act"}) {
    hyc.return %x : tensor<4xf32>
  }
  hyc.func @backward.0() { hyc.return }
  hyc.func @reduce.0() { hyc.return }
  hyc.func @apply.0() { hyc.return }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 2 batch <{dp}> tensor <{tp}>
  hyc.func @forward.0(%x: tensor<4xf32> {hyc.input = "x"}) -> (tensor<4xf32> {dist.channel = "h"}) {
    hyc.return %x : tensor<4xf32>
  }
  // expected-error @+1 {{takes dist.channel "h" as 'tensor<8xf32>', but @forward.0 gives 'tensor<4xf32>'}}
  hyc.func @forward.1(%h: tensor<8xf32> {dist.channel = "h"}) { hyc.return }
  hyc.func @backward.0() { hyc.return }
  hyc.func @backward.1() { hyc.return }
  hyc.func @reduce.0() { hyc.return }
  hyc.func @apply.0() { hyc.return }
  hyc.func @reduce.1() { hyc.return }
  hyc.func @apply.1() { hyc.return }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
  hyc.func @forward.0() { hyc.return }
  hyc.func @backward.0(%x: tensor<4xf32> {hyc.input = "x"}) {
    // expected-error @+1 {{'hyc.accumulate' op changes @w, which is kept on "host"; expected a fetch_start to "device" before}}
    hyc.accumulate %x into @w : tensor<4xf32>
    hyc.return
  }
  hyc.func @reduce.0() { hyc.return }
  hyc.func @apply.0() { hyc.return }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
  hyc.func @forward.0() { hyc.return }
  hyc.func @backward.0(%x: tensor<4xf32> {hyc.input = "x"}) {
    %0 = dist.fetch_start @w to "device" : !dist.pending<tensor<4xf32>>
    dist.wait_move %0 : !dist.pending<tensor<4xf32>>
    // expected-note @+1 {{changed here; expected an evict_start in between}}
    hyc.accumulate %x into @w : tensor<4xf32>
    // expected-error @+1 {{'dist.fetch_start' op replaces the copy of @w before what was changed of it is written back}}
    %1 = dist.fetch_start @w to "device" : !dist.pending<tensor<4xf32>>
    dist.wait_move %1 : !dist.pending<tensor<4xf32>>
    hyc.return
  }
  hyc.func @reduce.0() { hyc.return }
  hyc.func @apply.0() { hyc.return }
}

// -----

module {
  dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
  hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "host"}
  hyc.func @forward.0() { hyc.return }
  hyc.func @backward.0() {
    %0 = dist.fetch_start @w to "device" : !dist.pending<tensor<4xf32>>
    dist.wait_move %0 : !dist.pending<tensor<4xf32>>
    // expected-note @+1 {{evicted here already}}
    %1 = dist.evict_start @w from "device" : !dist.pending<tensor<4xf32>>
    dist.wait_move %1 : !dist.pending<tensor<4xf32>>
    // expected-error @+1 {{'dist.evict_start' op evicts @w, of which there is no copy; expected a fetch_start before}}
    %2 = dist.evict_start @w from "device" : !dist.pending<tensor<4xf32>>
    dist.wait_move %2 : !dist.pending<tensor<4xf32>>
    hyc.return
  }
  hyc.func @reduce.0() { hyc.return }
  hyc.func @apply.0() { hyc.return }
}
