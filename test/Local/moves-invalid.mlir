// RUN: hyc-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{dist.placement is "disk", expected "device", "host" or "nvme"}}
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.placement = "disk"}

// -----

hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.func @f() {
  // expected-error@+1 {{[move.place] names "nvme", expected "device" or "host"}}
  %t = dist.fetch_start @w to "nvme" : !dist.pending<tensor<4xf32>>
  hyc.return
}

// -----

hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64>
hyc.func @f() {
  // expected-error@+1 {{[move.state] moves @w as 'tensor<8xf32>', but it is 'tensor<4xf32>'}}
  %t = dist.evict_start @w from "host" : !dist.pending<tensor<8xf32>>
  hyc.return
}

// -----

hyc.func @f() {
  // expected-error@+1 {{[move.state] moves @w as 'tensor<4xf32>', but there is no param or state of this name}}
  %t = dist.fetch_start @w to "host" : !dist.pending<tensor<4xf32>>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<4096xf32> from #hyc.fill<0.0 : f64>
hyc.func @f() {
  // expected-error@+1 {{[move.state] moves @w as 'tensor<4096xf32>', but it is 'tensor<2048xf32>'}}
  %t = dist.fetch_start @w to "host" flat <{dp}> : !dist.pending<tensor<4096xf32>>
  hyc.return
}

// -----

hyc.func @f(%x: tensor<4xf32>) {
  %p = dist.all_reduce_start sum %x over <{dp}> : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  // expected-error@+1 {{[move.token] waits for what no fetch_start or evict_start began}}
  dist.wait_move %p : !dist.pending<tensor<4xf32>>
  hyc.return
}
