// RUN: hyc-opt %s --hyc-lower-to-rank --hyc-place-buffers --hyc-bucket-exchanges | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: hyc-opt %s --hyc-record-policies="policies=reduce_bucket_size=5000,allgather_bucket_size=5000" --hyc-lower-to-rank --hyc-place-buffers --hyc-bucket-exchanges | FileCheck %s --check-prefixes=CHECK,SMALL

// Sums are left in own slices of the gradients, and parameters joined where they lie: no copy, no temporary.
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @a : tensor<64x64xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}, {}]>}
hyc.param @b : tensor<3000xf32> from #hyc.fill<0.5 : f64> {dist.sharding = #dist.sharding<[{}]>}
hyc.state @a.grad of @a role "gradient" : tensor<64x64xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}, {}] partial {dp}>, dist.owned = #dist.axes<{dp}>}
hyc.state @b.grad of @b role "gradient" : tensor<3000xf32> from #hyc.fill<0.0 : f64> {dist.sharding = #dist.sharding<[{}] partial {dp}>, dist.owned = #dist.axes<{dp}>}
hyc.state @a.v of @a role "sgd.momentum" : tensor<2048xf32> from #hyc.fill<0.0 : f64> {global_type = tensor<64x64xf32>, dist.sharding = #dist.sharding<[{}, {}] flat {dp}>}

// CHECK-DAG: rank.arena @parameters shared bytes 28384
// CHECK-DAG: rank.arena @gradients shared bytes 28384
// CHECK-DAG: rank.arena @optimizer bytes 8192
// CHECK-DAG: rank.state @a.grad "gradient" of "a" in @gradients {{.*}} slice <{dp}>
// CHECK-DAG: rank.state @a.v "sgd.momentum" of "a" in @optimizer at 0 : !rank.buffer<2048xf32> logical [64, 64] global [64, 64] {{.*}} flat <{dp}>
// CHECK-NOT: rank.arena @communication
// CHECK-NOT: rank.arena @activations
// ALL: rank.collective {{.*}} "reduce_scatter" over <{dp}> cause "a.grad to b.grad" {{.*}} flat <{dp}>

// CHECK-LABEL: rank.func @reduce()
// ALL: rank.start "reduce_scatter" "sum" %{{.*}}, %{{.*}}, %{{.*}} flat <{dp}> count 7096
// SMALL-COUNT-2: rank.start "reduce_scatter" "sum" %{{.*}}, %{{.*}} flat <{dp}> count
// CHECK-NOT: rank.start
// CHECK-LABEL: rank.func @apply
// CHECK: rank.call "sgd_momentum" {{.*}} : !rank.buffer<2048xf32, shard {dp} of 4096>, !rank.buffer<2048xf32>, !rank.buffer<2048xf32, shard {dp} of 4096>
// ALL: rank.start "all_gather" "sum" {{.*}} count 7096 {{.*}}: !rank.buffer<2048xf32, shard {dp} of 4096>, !rank.buffer<2048xf32, shard {dp} of 3000> into !rank.buffer<64x64xf32>, !rank.buffer<3000xf32>
// CHECK-NOT: strided_copy
hyc.func @forward.0() {
  hyc.return
}
hyc.func @backward.0() {
  hyc.return
}
hyc.func @reduce.0() {
  %a = hyc.read @a.grad : tensor<64x64xf32>
  %pa = dist.reduce_scatter_start %a flat <{dp}> over <{dp}> {cause = "a.grad"} : tensor<64x64xf32> -> !dist.pending<tensor<2048xf32>>
  %b = hyc.read @b.grad : tensor<3000xf32>
  %pb = dist.reduce_scatter_start %b flat <{dp}> over <{dp}> {cause = "b.grad"} : tensor<3000xf32> -> !dist.pending<tensor<2048xf32>>
  %ra = dist.wait %pa : !dist.pending<tensor<2048xf32>> -> tensor<2048xf32>
  hyc.write %ra into @a.grad {dist.flat = #dist.axes<{dp}>} : tensor<2048xf32>
  %rb = dist.wait %pb : !dist.pending<tensor<2048xf32>> -> tensor<2048xf32>
  hyc.write %rb into @b.grad {dist.flat = #dist.axes<{dp}>} : tensor<2048xf32>
  hyc.return
}
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  hyc.sgd @a, @a.grad velocity @a.v lr %lr scale %lr {momentum = 0.9 : f64, weight_decay = 0.0 : f64, dist.flat = #dist.axes<{dp}>} : tensor<f32>, tensor<f32>
  %a = hyc.read @a {dist.flat = #dist.axes<{dp}>} : tensor<2048xf32>
  %pa = dist.all_gather_start %a flat <{dp}> over <{dp}> {cause = "a"} : tensor<2048xf32> -> !dist.pending<tensor<64x64xf32>>
  %b = hyc.read @b {dist.flat = #dist.axes<{dp}>} : tensor<2048xf32>
  %pb = dist.all_gather_start %b flat <{dp}> over <{dp}> {cause = "b"} : tensor<2048xf32> -> !dist.pending<tensor<3000xf32>>
  %wa = dist.wait %pa : !dist.pending<tensor<64x64xf32>> -> tensor<64x64xf32>
  hyc.write %wa into @a : tensor<64x64xf32>
  %wb = dist.wait %pb : !dist.pending<tensor<3000xf32>> -> tensor<3000xf32>
  hyc.write %wb into @b : tensor<3000xf32>
  hyc.return
}
