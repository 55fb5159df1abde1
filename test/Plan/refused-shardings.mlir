// Shardings that can't be, each with the reason and what can.
// RUN: hyc-opt %s --split-input-file --verify-diagnostics --hyc-propagate-shardings

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @below {{parameter "w" has sharding #dist.sharding<[{}, {tp}]>, which splits dim 1 over #dist.axes<{tp}>, 2 parts, but its size is 7, and padding the last part would change the result; it can be split over #dist.axes<{}>}}
hyc.param @w : tensor<4x7xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>}
hyc.state @out role "out" : tensor<4x7xf32> from #hyc.fill<0.0 : f64>
hyc.func @microbatch() {
  %w = hyc.read @w : tensor<4x7xf32>
  // expected-note @below {{"e" (hyc.exp) does not keep the padding apart}}
  %e = hyc.exp %w {id = "e"} : tensor<4x7xf32>
  hyc.accumulate %e into @out : tensor<4x7xf32>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @below {{splits dim 0 over #dist.axes<{dp, tp}>, 4 parts, but its size is 2, and the last part would be empty; it can be split over #dist.axes<{dp}>}}
hyc.param @w : tensor<2x7xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{dp, tp}, {}]>}
hyc.func @microbatch() {
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// Padding is fine here, in the mesh's order.
// expected-error @below {{splits dim 0 over #dist.axes<{tp, dp}>, 4 parts, but its size is 11, and parts that are padded need axes in the order of the mesh, ["dp", "tp"]; it can be split over #dist.axes<{}>}}
hyc.param @w : tensor<11x7xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{tp, dp}, {}]>}
hyc.func @microbatch() {
  %w = hyc.read @w : tensor<11x7xf32>
  %n = hyc.neg %w : tensor<11x7xf32>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// A reshape joins 6 = 2 · 3: what splits one splits the other.
// expected-error @below {{splits dim 0 over #dist.axes<{dp, tp}>, 4 parts, but reshapes make it one index with dimensions of which only 2 is a common divisor, and the last part would be empty; it can be split over #dist.axes<{dp}>}}
hyc.param @w : tensor<12xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{dp, tp}]>}
hyc.func @microbatch() {
  %w = hyc.read @w : tensor<12xf32>
  %r = hyc.reshape %w : (tensor<12xf32>) -> tensor<2x6xf32>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// A label that is padding would be counted.
hyc.param @head : tensor<8x5xf32> from #hyc.fill<0.0 : f64>
hyc.state @out role "out" : tensor<f32> from #hyc.fill<0.0 : f64>
// expected-error @below {{input "x" has sharding #dist.sharding<[{dp}, {tp}, {}]>, which splits dim 1 over #dist.axes<{tp}>, 2 parts, but its size is 3, and padding the last part would change the result; it can be split over #dist.axes<{}>}}
hyc.func @microbatch(%x: tensor<4x3x8xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{dp}, {tp}, {}]>}, %labels: tensor<4x3xi64> {hyc.input = "labels"}) {
  %w = hyc.read @head : tensor<8x5xf32>
  %logits = hyc.einsum "bsk,kv->bsv" %x, %w {id = "head"} : (tensor<4x3x8xf32>, tensor<8x5xf32>) -> tensor<4x3x5xf32>
  // expected-note @below {{"loss" (hyc.cross_entropy) does not keep the padding apart}}
  %sum, %count, %lse = hyc.cross_entropy %logits, %labels {id = "loss"} : (tensor<4x3x5xf32>, tensor<4x3xi64>) -> (tensor<f32>, tensor<i64>, tensor<4x3xf32>)
  hyc.accumulate %sum into @out : tensor<f32>
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-note @below {{parameter "a" has sharding #dist.sharding<[{tp}, {}]>, whose dim 0 is that index}}
hyc.param @a : tensor<4x8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{tp}, {}]>}
// expected-error @below {{parameter "b" has sharding #dist.sharding<[{dp}, {}]>, which splits dim 0 over #dist.axes<{dp}>, but the same index of the model is split over #dist.axes<{tp}> elsewhere; give both the same axes, or leave one of them whole}}
hyc.param @b : tensor<4x8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{dp}, {}]>}
hyc.func @microbatch() {
  %a = hyc.read @a : tensor<4x8xf32>
  %b = hyc.read @b : tensor<4x8xf32>
  %c = hyc.add %a, %b : tensor<4x8xf32>
  hyc.return
}

// -----

// expected-note @below {{mesh declared here}}
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @below {{splits dim 0 over #dist.axes<{ep}>, but the mesh has no axis "ep"}}
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{ep}]>}
hyc.func @microbatch() {
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @below {{parameter "w" has sharding #dist.sharding<[{}] partial {tp}>, but its value is known and no sum is open}}
hyc.param @w : tensor<4xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {tp}>}
hyc.func @microbatch() {
  hyc.return
}

// -----

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// expected-error @below {{parameter "w" has sharding #dist.sharding<[{}]>, expected one axis list for each dimension of}}
hyc.param @w : tensor<4x4xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.func @microbatch() {
  hyc.return
}
