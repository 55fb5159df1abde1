// A conversion has the lifetime of what it converts. Only copies can be saved in parts: what a rank of tp has of a slice or
// of an open sum is its own, and is saved as it is.
// RUN: hyc-opt %s --hyc-partition | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 2] stages 1 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{tp}, {}]>}
hyc.state @sum role "loss_sum" : tensor<4x8xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {}]>}
hyc.func @microbatch(%x: tensor<4x8xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{}, {}]>}) {
  %w = hyc.read @w {dist.shardings = [#dist.sharding<[{tp}, {}]>], dist.stage = 0} : tensor<8x8xf32>
  // CHECK: hyc.neg {{.*}}dist.lifetime = #dist.lifetime<save over {tp}>{{.*}}id = "a"
  %a = hyc.neg %x {id = "a", dist.shardings = [#dist.sharding<[{}, {}]>], dist.stage = 0, dist.lifetime = #dist.lifetime<save over {tp}>} : tensor<4x8xf32>
  // CHECK-NEXT: dist.slice {{.*}} dim 1 over <{tp}> {dist.lifetime = #dist.lifetime<save>
  // CHECK-NEXT: hyc.einsum {{.*}}dist.lifetime = #dist.lifetime<save>,{{.*}}id = "y"
  // CHECK-NEXT: dist.all_reduce_start sum {{.*}}dist.lifetime = #dist.lifetime<save over {tp}>
  // CHECK-NEXT: dist.wait {{.*}}dist.lifetime = #dist.lifetime<save over {tp}>
  %y = hyc.einsum "bk,kn->bn" %a, %w {id = "y", dist.split = [#dist.axes<{}>, #dist.axes<{tp}>, #dist.axes<{}>], dist.shardings = [#dist.sharding<[{}, {}] partial {tp}>], dist.stage = 0, dist.lifetime = #dist.lifetime<save over {tp}>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %z = hyc.exp %y {id = "z", dist.shardings = [#dist.sharding<[{}, {}]>], dist.stage = 0} : tensor<4x8xf32>
  hyc.accumulate %z into @sum {dist.stage = 0} : tensor<4x8xf32>
  hyc.return
}
