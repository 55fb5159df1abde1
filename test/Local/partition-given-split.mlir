// Shardings that somebody wrote. "down" contracts n over tp, though neither of its operands arrives split there: @down is
// whole, and what makes %h used tp for the sequence, as @positions does. The split is recorded beside the result, so both
// operands are cut, and the sum is closed once, straight into the shards that its user wants.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-seed-shardings --hyc-propagate-shardings | FileCheck %s --check-prefix=PLAN
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-seed-shardings --hyc-propagate-shardings --hyc-partition | FileCheck %s

hyc.param @up : tensor<8x16xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp}]>}
hyc.param @positions : tensor<12x16xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{tp}, {}]>}
hyc.param @down : tensor<16x4xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {}]>}
hyc.param @wide : tensor<16x4xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {tp, dp}]>}
hyc.state @out role "out" : tensor<f32> from #hyc.fill<0.0 : f64>

// An input is loaded by samples alone; what an op has of it besides is cut from there.
// CHECK-LABEL: hyc.func @microbatch(%arg0: tensor<2x12x8xf32> {dist.sharding = #dist.sharding<[{dp}, {}, {}]>
hyc.func @microbatch(%x: tensor<4x12x8xf32> {hyc.input = "x"}) {
  %u = hyc.read @up : tensor<8x16xf32>
  // CHECK: %[[X:.*]] = dist.slice %arg0 dim 1 over <{tp}> {{.*}} -> tensor<2x6x8xf32>
  // CHECK: %[[T:.*]] = hyc.einsum "bsk,kn->bsn" %[[X]], {{.*}} -> tensor<2x6x16xf32>
  %t = hyc.einsum "bsk,kn->bsn" %x, %u {id = "up", dist.stage = 0} : (tensor<4x12x8xf32>, tensor<8x16xf32>) -> tensor<4x12x16xf32>
  %p = hyc.read @positions : tensor<12x16xf32>
  %b = hyc.broadcast %p [1, 2] {dist.stage = 0} : (tensor<12x16xf32>) -> tensor<4x12x16xf32>
  // CHECK: %[[H:.*]] = hyc.add %[[T]], {{.*}} : tensor<2x6x16xf32>
  // An axis that moves from one dimension to another does so in one exchange; nobody holds the whole in between.
  // CHECK: %[[MOVED:.*]] = dist.all_to_all_start %[[H]] split 2 concat 1 over <{tp}> {cause = "add", {{.*}} : tensor<2x6x16xf32> -> <tensor<2x12x8xf32>>
  %h = hyc.add %t, %b {id = "add", dist.stage = 0} : tensor<4x12x16xf32>
  // CHECK: %[[DOWN:.*]] = hyc.read @down : tensor<16x4xf32>
  %d = hyc.read @down : tensor<16x4xf32>
  // PLAN: hyc.einsum "nk,bsn->bsk" {{.*}}dist.shardings = [#dist.sharding<[{dp}, {}, {}] partial {tp}>], dist.split = [#dist.axes<{tp}>, #dist.axes<{}>, #dist.axes<{dp}>, #dist.axes<{}>], dist.stage = 0 : i64, id = "down"
  // CHECK: %[[W:.*]] = dist.slice %[[DOWN]] dim 0 over <{tp}> {{.*}} -> tensor<8x4xf32>
  // CHECK: %[[N:.*]] = dist.wait %[[MOVED]]
  // CHECK: %[[Y:.*]] = hyc.einsum "nk,bsn->bsk" %[[W]], %[[N]] {{.*}} -> tensor<2x12x4xf32>
  // CHECK: dist.reduce_scatter_start %[[Y]] dim 1 over <{tp}> {cause = "down"
  %y = hyc.einsum "nk,bsn->bsk" %d, %h {id = "down", dist.stage = 0} : (tensor<16x4xf32>, tensor<4x12x16xf32>) -> tensor<4x12x4xf32>
  %e = hyc.exp %y {dist.stage = 0} : tensor<4x12x4xf32>
  %v = hyc.read @wide : tensor<16x4xf32>
  // The members of a group are in the order of the mesh, dp before tp; the columns of @wide are not, and are joined in two
  // steps.
  // CHECK: dist.all_gather_start {{.*}} dim 1 over <{dp}> {{.*}} : tensor<16x1xf32> -> <tensor<16x2xf32>>
  // CHECK: dist.all_gather_start {{.*}} dim 1 over <{tp}> {{.*}} : tensor<16x2xf32> -> <tensor<16x4xf32>>
  %s = hyc.softmax %v {dist.stage = 0} : tensor<16x4xf32>
  %r = hyc.reduce sum %e [0, 1, 2] {dist.stage = 0} : (tensor<4x12x4xf32>) -> tensor<f32>
  %q = hyc.reduce sum %s [0, 1] {dist.stage = 0} : (tensor<16x4xf32>) -> tensor<f32>
  %z = hyc.add %r, %q {dist.stage = 0} : tensor<f32>
  hyc.accumulate %z into @out {dist.stage = 0} : tensor<f32>
  hyc.return
}
