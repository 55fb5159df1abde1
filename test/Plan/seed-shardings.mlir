// The inner factor of contraction - elementwise - contraction is split over tp, the batch over dp; partial sums are closed
// nowhere yet, only recorded.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-seed-shardings --hyc-propagate-shardings | FileCheck %s

// CHECK: dist.mesh @mesh axes ["dp", "tp"] sizes [2, 2] stages 1 batch <{dp}> tensor <{tp}>
// CHECK: hyc.param @fc1.weight {{.*}} {dist.sharding = #dist.sharding<[{}, {tp}]>}
hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @fc1.bias {{.*}} {dist.sharding = #dist.sharding<[{tp}]>}
hyc.param @fc1.bias : tensor<256xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @fc2.weight {{.*}} {dist.sharding = #dist.sharding<[{tp}, {}]>}
hyc.param @fc2.weight : tensor<256x64xf32> from #hyc.fill<0.0 : f64>
// A gradient stays partial over the axis whose ranks saw different samples.
// CHECK: hyc.state @fc2.weight.grad {{.*}} {dist.sharding = #dist.sharding<[{tp}, {}] partial {dp}>}
hyc.state @fc2.weight.grad of @fc2.weight role "gradient" : tensor<256x64xf32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @microbatch
// CHECK-SAME: dist.sharding = #dist.sharding<[{dp}, {}]>
hyc.func @microbatch(%x: tensor<8x64xf32> {hyc.input = "x"}, %dy: tensor<8x64xf32> {hyc.input = "dy"}) {
  %w1 = hyc.read @fc1.weight : tensor<64x256xf32>
  // CHECK: hyc.einsum {{.*}}dist.shardings = [#dist.sharding<[{dp}, {tp}]>], {{.*}}id = "fc1"
  %h = hyc.einsum "bk,kn->bn" %x, %w1 {id = "fc1"} : (tensor<8x64xf32>, tensor<64x256xf32>) -> tensor<8x256xf32>
  %b1 = hyc.read @fc1.bias : tensor<256xf32>
  %bb = hyc.broadcast %b1 [1] : (tensor<256xf32>) -> tensor<8x256xf32>
  %hb = hyc.add %h, %bb : tensor<8x256xf32>
  // CHECK: hyc.gelu {{.*}}dist.shardings = [#dist.sharding<[{dp}, {tp}]>], {{.*}}id = "act"
  %a = hyc.gelu %hb {id = "act"} : tensor<8x256xf32>
  %w2 = hyc.read @fc2.weight : tensor<256x64xf32>
  // CHECK: hyc.einsum {{.*}}dist.shardings = [#dist.sharding<[{dp}, {}] partial {tp}>], {{.*}}id = "fc2"
  %y = hyc.einsum "bn,nk->bk" %a, %w2 {id = "fc2"} : (tensor<8x256xf32>, tensor<256x64xf32>) -> tensor<8x64xf32>
  %g = hyc.mul %y, %dy : tensor<8x64xf32>
  // CHECK: hyc.einsum {{.*}}dist.shardings = [#dist.sharding<[{tp}, {}] partial {dp}>], {{.*}}hyc.backward, id = "fc2.grad.rhs"
  %dw2 = hyc.einsum "bn,bk->nk" %a, %g {id = "fc2.grad.rhs", hyc.backward} : (tensor<8x256xf32>, tensor<8x64xf32>) -> tensor<256x64xf32>
  hyc.accumulate %dw2 into @fc2.weight.grad {hyc.backward} : tensor<256x64xf32>
  hyc.return
}
