// Copies in the compute type beside flat masters: every rank refreshes its own shard, and gathers 16 bits.
// RUN: hyc-opt %s --hyc-seed-shardings --hyc-propagate-shardings --hyc-shard-states --hyc-partition --hyc-cut-stages --hyc-reduce-gradients --hyc-distribute-update --hyc-verify-local | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]

// Stage 1: the master is flat as the velocity is, its copy whole.
// CHECK: hyc.param @one : tensor<2048xf32>
hyc.param @one : tensor<64x64xf32> from #hyc.fill<0.5 : f64> {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>}
// CHECK: hyc.state @one.compute {{.*}} : tensor<64x64xbf16>
hyc.state @one.compute of @one role "compute" : tensor<64x64xbf16> from #hyc.fill<0.5 : f64> {dist.stages = array<i64: 0>}
hyc.state @one.grad of @one role "gradient" : tensor<64x64xf32> from #hyc.fill<0.0 : f64>
  {dist.stages = array<i64: 0>, dist.reduction = "step"}
hyc.state @one.v of @one role "sgd.momentum" : tensor<64x64xf32> from #hyc.fill<0.0 : f64> {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>}

// Stage 3: the copy is flat, too.
hyc.param @three : tensor<64x64xf32> from #hyc.fill<0.5 : f64> {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>}
// CHECK: hyc.state @three.compute {{.*}} : tensor<2048xbf16>
hyc.state @three.compute of @three role "compute" : tensor<64x64xbf16> from #hyc.fill<0.5 : f64> {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>}
hyc.state @three.grad of @three role "gradient" : tensor<64x64xf32> from #hyc.fill<0.0 : f64>
  {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>, dist.reduction = "micro_batch"}
hyc.state @three.v of @three role "sgd.momentum" : tensor<64x64xf32> from #hyc.fill<0.0 : f64> {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>}
hyc.state @norm role "grad_norm" : tensor<f32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}

// CHECK-LABEL: hyc.func @forward.0
// CHECK: hyc.read @one.compute {{.*}}: tensor<64x64xbf16>
// CHECK: %[[S:.*]] = hyc.read @three.compute {{.*}}: tensor<2048xbf16>
// CHECK: dist.all_gather_start %[[S]] flat <{dp}> over <{dp}> {{.*}} : tensor<2048xbf16> -> <tensor<64x64xbf16>>

// CHECK-LABEL: hyc.func @apply.0
// CHECK: hyc.sgd @one, @one.grad velocity @one.v {{.*}}dist.flat = #dist.axes<{dp}>
// CHECK: hyc.refresh @one.compute from @one {dist.flat = #dist.axes<{dp}>}
// CHECK: hyc.refresh @three.compute from @three {dist.flat = #dist.axes<{dp}>}
// CHECK-NOT: hyc.read @one {
// CHECK: %[[A:.*]] = hyc.read @one.compute {dist.flat = #dist.axes<{dp}>} : tensor<2048xbf16>
// CHECK: %[[P:.*]] = dist.all_gather_start %[[A]] flat <{dp}> over <{dp}> {{.*}} : tensor<2048xbf16> -> <tensor<64x64xbf16>>
// CHECK-NOT: hyc.read @three
// CHECK: %[[W:.*]] = dist.wait %[[P]]
// CHECK: hyc.write %[[W]] into @one.compute : tensor<64x64xbf16>
hyc.func @microbatch(%x: tensor<8x64xbf16> {hyc.input = "x", dist.sharding = #dist.sharding<[{dp}, {}]>}) {
  %v = hyc.read @one.compute {dist.stage = 0} : tensor<64x64xbf16>
  %a = hyc.einsum "bk,nk->bn" %x, %v {id = "first", dist.stage = 0} : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  %w = hyc.read @three.compute {dist.stage = 0} : tensor<64x64xbf16>
  %y = hyc.einsum "bk,nk->bn" %a, %w {id = "product", dist.stage = 0} : (tensor<8x64xbf16>, tensor<64x64xbf16>) -> tensor<8x64xbf16>
  %g = hyc.einsum "bk,bn->kn" %y, %x {id = "gradient", hyc.backward, dist.stage = 0} : (tensor<8x64xbf16>, tensor<8x64xbf16>) -> tensor<64x64xf32>
  hyc.accumulate %g into @one.grad {hyc.backward, dist.stage = 0} : tensor<64x64xf32>
  hyc.accumulate %g into @three.grad {hyc.backward, dist.stage = 0} : tensor<64x64xf32>
  hyc.return
}
hyc.func @apply(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  %c = hyc.constant dense<1> : tensor<i64>
  %q = hyc.sum_of_squares [@one.grad, @three.grad] : tensor<f64>
  %scale, %n = hyc.gradient_scale %q, %c : (tensor<f64>, tensor<i64>) -> (tensor<f32>, tensor<f32>)
  hyc.write %n into @norm : tensor<f32>
  hyc.sgd @one, @one.grad velocity @one.v lr %lr scale %scale {momentum = 0.9 : f64, weight_decay = 0.0 : f64} : tensor<f32>, tensor<f32>
  hyc.refresh @one.compute from @one
  hyc.sgd @three, @three.grad velocity @three.v lr %lr scale %scale {momentum = 0.9 : f64, weight_decay = 0.0 : f64} : tensor<f32>, tensor<f32>
  hyc.refresh @three.compute from @three
  hyc.return
}
