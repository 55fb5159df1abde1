// Sequence parallelism: the inputs' dimension 1 over tp, which yields inside a block whose inner factor tp splits, and
// holds where nothing else is split. A table of positions is split with it.
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-seed-shardings=sequence-parallel --hyc-propagate-shardings | FileCheck %s
// RUN: hyc-opt %s --hyc-create-mesh='dp=2 tp=2' --hyc-seed-shardings=sequence-parallel --hyc-propagate-shardings --hyc-assign-stages --hyc-build-schedule --hyc-partition | FileCheck %s --check-prefix=LOCAL
// RUN: not hyc-opt %s --hyc-create-mesh='dp=2 tp=3' --hyc-seed-shardings=sequence-parallel 2>&1 | FileCheck %s --check-prefix=UNEVEN
// UNEVEN: sequence parallelism splits dim 1 of input "x" over axis "tp" of size 3, but its size is 16, expected a multiple

// CHECK: hyc.param @positions {{.*}} {dist.sharding = #dist.sharding<[{tp}, {}]>}
hyc.param @positions : tensor<16x64xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @fc1.weight {{.*}} {dist.sharding = #dist.sharding<[{}, {tp}]>}
hyc.param @fc1.weight : tensor<64x256xf32> from #hyc.fill<0.0 : f64>
// CHECK: hyc.param @fc2.weight {{.*}} {dist.sharding = #dist.sharding<[{tp}, {}]>}
hyc.param @fc2.weight : tensor<256x64xf32> from #hyc.fill<0.0 : f64>
hyc.param @scale : tensor<64xf32> from #hyc.fill<1.0 : f64>
// Of a norm's weight every rank of tp has a part of the gradient's sum.
// CHECK: hyc.state @scale.grad {{.*}} {dist.sharding = #dist.sharding<[{}] partial {dp, tp}>}
hyc.state @scale.grad of @scale role "gradient" : tensor<64xf32> from #hyc.fill<0.0 : f64>

// CHECK-LABEL: hyc.func @microbatch
// CHECK-SAME: dist.sharding = #dist.sharding<[{dp}, {tp}, {}]>
// LOCAL-LABEL: hyc.func @microbatch
hyc.func @microbatch(%x: tensor<8x16x64xf32> {hyc.input = "x"}) {
  %p = hyc.read @positions : tensor<16x64xf32>
  %pb = hyc.broadcast %p [1, 2] : (tensor<16x64xf32>) -> tensor<8x16x64xf32>
  // CHECK: hyc.add {{.*}}dist.shardings = [#dist.sharding<[{dp}, {tp}, {}]>], {{.*}}id = "embed"
  %e = hyc.add %x, %pb {id = "embed"} : tensor<8x16x64xf32>
  %s = hyc.read @scale : tensor<64xf32>
  %sb = hyc.broadcast %s [2] : (tensor<64xf32>) -> tensor<8x16x64xf32>
  // CHECK: hyc.mul {{.*}}dist.shardings = [#dist.sharding<[{dp}, {tp}, {}]>], {{.*}}id = "norm"
  // LOCAL: %[[NORM:.*]] = hyc.mul {{.*}}id = "norm"} : tensor<4x8x64xf32>
  %n = hyc.mul %e, %sb {id = "norm"} : tensor<8x16x64xf32>
  %w1 = hyc.read @fc1.weight : tensor<64x256xf32>
  // The block begins: its shards of the sequence are gathered.
  // CHECK: hyc.einsum {{.*}}dist.shardings = [#dist.sharding<[{dp}, {}, {tp}]>], {{.*}}id = "fc1"
  // LOCAL: dist.all_gather_start %[[NORM]] dim 1 over <{tp}>
  // LOCAL: hyc.einsum {{.*}}id = "fc1"} : (tensor<4x16x64xf32>, tensor<64x128xf32>) -> tensor<4x16x128xf32>
  %h = hyc.einsum "bsk,kn->bsn" %n, %w1 {id = "fc1"} : (tensor<8x16x64xf32>, tensor<64x256xf32>) -> tensor<8x16x256xf32>
  %a = hyc.gelu %h {id = "act"} : tensor<8x16x256xf32>
  %w2 = hyc.read @fc2.weight : tensor<256x64xf32>
  // CHECK: hyc.einsum {{.*}}dist.shardings = [#dist.sharding<[{dp}, {}, {}] partial {tp}>], {{.*}}id = "fc2"
  // LOCAL: %[[OUT:.*]] = hyc.einsum {{.*}}id = "fc2"}
  %y = hyc.einsum "bsn,nk->bsk" %a, %w2 {id = "fc2"} : (tensor<8x16x256xf32>, tensor<256x64xf32>) -> tensor<8x16x64xf32>
  // It ends: every rank gets its shard of the sum.
  // CHECK: hyc.add {{.*}}dist.shardings = [#dist.sharding<[{dp}, {tp}, {}]>], {{.*}}id = "residual"
  // LOCAL: dist.reduce_scatter_start %[[OUT]] dim 1 over <{tp}> {{.*}} : tensor<4x16x64xf32> -> <tensor<4x8x64xf32>>
  // LOCAL: hyc.add {{.*}}id = "residual"} : tensor<4x8x64xf32>
  %r = hyc.add %e, %y {id = "residual"} : tensor<8x16x64xf32>
  %dn = hyc.mul %r, %e {id = "norm.grad", hyc.backward} : tensor<8x16x64xf32>
  // The record between forward and backward holds shards: backward gathers again.
  // LOCAL: dist.all_gather_start %[[NORM]] dim 1 over <{tp}> {{.*}}hyc.backward
  // LOCAL: hyc.einsum {{.*}}id = "fc1.grad"
  %da = hyc.einsum "bsk,bsn->kn" %n, %h {id = "fc1.grad", hyc.backward} : (tensor<8x16x64xf32>, tensor<8x16x256xf32>) -> tensor<64x256xf32>
  %ds = hyc.reduce sum %dn [0, 1] {id = "scale.grad", hyc.backward} : (tensor<8x16x64xf32>) -> tensor<64xf32>
  hyc.accumulate %ds into @scale.grad {hyc.backward} : tensor<64xf32>
  hyc.return
}
