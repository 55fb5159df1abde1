// RUN: hyc-opt %s --split-input-file --verify-diagnostics --hyc-shard-states="zero=1"

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<4096xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.state @w.grad of @w role "gradient" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {dp}>}
// expected-note @+1 {{the other state}}
hyc.state @w.m of @w role "adam.m" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}
// expected-error @+1 {{[flat.states] is flat over #dist.axes<{}>, but @w.m of the same parameter over #dist.axes<{dp}>}}
hyc.state @w.v of @w role "adam.v" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>, dist.flat = #dist.axes<{}>}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @+1 {{[flat.states] is flat over #dist.axes<{tp}>, but the optimizer states of @w over #dist.axes<{dp}>}}
hyc.param @w : tensor<4096xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>, dist.flat = #dist.axes<{tp}>}
hyc.state @w.grad of @w role "gradient" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {dp}>}
hyc.state @w.m of @w role "adam.m" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<4096xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>}
// expected-error @+1 {{[flat.gradient] is to be flat over axis "dp", but is summed over it once a step}}
hyc.state @w.grad of @w role "gradient" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {dp}>, dist.flat = #dist.axes<{dp}>}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @+1 {{[flat.axes] is to be flat over axis "tp", but its sharding #dist.sharding<[{tp}]> splits a dimension over it already}}
hyc.param @w : tensor<4096xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{tp}]>, dist.flat = #dist.axes<{tp}>}

// -----

// expected-note @+1 {{mesh declared here}}
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @+1 {{[flat.axes] is flat over axis "ep", which the mesh does not have}}
hyc.param @w : tensor<4096xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>, dist.flat = #dist.axes<{ep}>}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @+1 {{[flat.axes] is flat over #dist.axes<{dp}>, but it is a state of the whole run; expected it whole}}
hyc.state @losses role "loss_sum" : tensor<4096xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>, dist.flat = #dist.axes<{dp}>}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @+1 {{[flat.axes] is to be flat, but the model writes it in each micro-batch; expected it whole}}
hyc.param @mean : tensor<4096xf32> from #hyc.fill<0.5 : f64> frozen {dist.sharding = #dist.sharding<[{}]>, dist.flat = #dist.axes<{dp}>}
hyc.func @microbatch(%x: tensor<4096xf32>) {
  hyc.write %x into @mean : tensor<4096xf32>
  hyc.return
}
