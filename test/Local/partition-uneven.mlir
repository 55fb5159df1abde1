// Ten columns over 2 are shards of 5; over 2 · 2 shards of 3, which straddle them. What goes from one to the other is joined
// whole. Twelve columns nest, and only the minor axis is joined.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-seed-shardings --hyc-propagate-shardings --hyc-partition | FileCheck %s

hyc.param @rows : tensor<4x8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{tp}, {}]>}
hyc.param @ten : tensor<8x10xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {dp, tp}]>}
hyc.param @twelve : tensor<8x12xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {dp, tp}]>}
hyc.state @a role "out" : tensor<4x10xf32> from #hyc.fill<0.0 : f64>
hyc.state @b role "out" : tensor<4x12xf32> from #hyc.fill<0.0 : f64>

hyc.func @microbatch(%x: tensor<4xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{}]>}) {
  %r = hyc.read @rows : tensor<4x8xf32>
  %t = hyc.read @ten : tensor<8x10xf32>
  // CHECK: %[[TEN:.*]] = hyc.read @ten : tensor<8x3xf32>
  // CHECK: dist.all_gather_start %[[TEN]] dim 1 over <{dp, tp}> {{.*}} -> <tensor<8x10xf32>>
  // CHECK: dist.slice {{.*}} dim 1 over <{dp}> : tensor<8x10xf32> -> tensor<8x5xf32>
  %p = hyc.einsum "mk,kn->mn" %r, %t {dist.stage = 0} : (tensor<4x8xf32>, tensor<8x10xf32>) -> tensor<4x10xf32>
  hyc.accumulate %p into @a {dist.stage = 0} : tensor<4x10xf32>
  %w = hyc.read @twelve : tensor<8x12xf32>
  // CHECK: %[[TWELVE:.*]] = hyc.read @twelve : tensor<8x3xf32>
  // CHECK: dist.all_gather_start %[[TWELVE]] dim 1 over <{tp}> {{.*}} -> <tensor<8x6xf32>>
  %q = hyc.einsum "mk,kn->mn" %r, %w {dist.stage = 0} : (tensor<4x8xf32>, tensor<8x12xf32>) -> tensor<4x12xf32>
  hyc.accumulate %q into @b {dist.stage = 0} : tensor<4x12xf32>
  hyc.return
}
