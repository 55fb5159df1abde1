// A plan's lifetimes are checked, whoever wrote them.
// RUN: hyc-opt %s --split-input-file --verify-diagnostics --hyc-assign-lifetimes

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  // expected-error@+1 {{[lifetime.forward] backward op "g" has the lifetime #dist.lifetime<recompute>, expected it on forward ops only}}
  %g = hyc.neg %x {id = "g", hyc.backward, dist.lifetime = #dist.lifetime<recompute>} : tensor<2x8xf32>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.state @n role "token_count" : tensor<i64> from #hyc.fill<0.0 : f64>
hyc.func @microbatch(%x: tensor<i64> {hyc.input = "x"}) {
  hyc.accumulate %x into @n : tensor<i64>
  // What the function itself changes is not read twice.
  // expected-error@+1 {{[lifetime.exact] "n" has effects, so that it cannot be computed again; save it}}
  %n = hyc.read @n {id = "n", dist.lifetime = #dist.lifetime<recompute>} : tensor<i64>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  // expected-error@+1 {{[lifetime.whole] "y" is saved over axis "sp", which the mesh does not have}}
  %y = hyc.neg %x {id = "y", dist.lifetime = #dist.lifetime<save over {sp}>} : tensor<2x8xf32>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x"}) {
  // expected-error@+1 {{[lifetime.whole] "y" is saved over axis "tp", which splits it already: #dist.sharding<[{}, {tp}]>}}
  %y = hyc.neg %x {id = "y", dist.shardings = [#dist.sharding<[{}, {tp}]>], dist.lifetime = #dist.lifetime<save over {tp}>} : tensor<2x8xf32>
  hyc.return
}
