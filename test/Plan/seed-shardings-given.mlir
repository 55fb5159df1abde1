// Seeds keep clear of what is given: the inner factor is split over dp already, so tp is not seeded there, and the batch
// of %dy is split as that of %x is.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-seed-shardings --hyc-propagate-shardings | FileCheck %s

// CHECK: hyc.param @fc1.weight {{.*}} {dist.sharding = #dist.sharding<[{}, {dp}]>}
hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {dp}]>}
// CHECK: hyc.param @fc2.weight {{.*}} {dist.sharding = #dist.sharding<[{}, {}]>}
hyc.param @fc2.weight : tensor<256x64xf32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @microbatch
// CHECK-SAME: %arg0: tensor<8x64xf32> {dist.sharding = #dist.sharding<[{tp}, {}]>
// CHECK-SAME: %arg1: tensor<8x64xf32> {dist.sharding = #dist.sharding<[{tp}, {}]>
hyc.func @microbatch(%x: tensor<8x64xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{tp}, {}]>}, %dy: tensor<8x64xf32> {hyc.input = "dy"}) {
  %w1 = hyc.read @fc1.weight : tensor<64x256xf32>
  // CHECK: hyc.einsum {{.*}}dist.shardings = [#dist.sharding<[{tp}, {dp}]>], {{.*}} id = "fc1"
  %h = hyc.einsum "bk,kn->bn" %x, %w1 {id = "fc1"} : (tensor<8x64xf32>, tensor<64x256xf32>) -> tensor<8x256xf32>
  %a = hyc.gelu %h : tensor<8x256xf32>
  %w2 = hyc.read @fc2.weight : tensor<256x64xf32>
  // CHECK: hyc.einsum {{.*}}dist.shardings = [#dist.sharding<[{tp}, {}] partial {dp}>], {{.*}} id = "fc2"
  %y = hyc.einsum "bn,nk->bk" %a, %w2 {id = "fc2"} : (tensor<8x256xf32>, tensor<256x64xf32>) -> tensor<8x64xf32>
  %g = hyc.mul %y, %dy : tensor<8x64xf32>
  hyc.return
}
