// What phase 4 makes of flat states: ZeRO's stages, one parameter each.
// RUN: hyc-opt %s --hyc-seed-shardings --hyc-propagate-shardings --hyc-shard-states --hyc-partition --hyc-cut-stages --hyc-reduce-gradients --hyc-distribute-update --hyc-verify-local | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]

// Stage 1: the optimizer's states are flat; the gradient is whole, and reduced once a step.
hyc.param @one : tensor<64x64xf32> from #hyc.fill<0.5 : f64> {dist.stages = array<i64: 0>}
hyc.state @one.grad of @one role "gradient" : tensor<64x64xf32> from #hyc.fill<0.0 : f64>
  {dist.stages = array<i64: 0>, dist.reduction = "step"}
// CHECK: hyc.state @one.v {{.*}} : tensor<2048xf32> {{.*}}global_type = tensor<64x64xf32>
hyc.state @one.v of @one role "sgd.momentum" : tensor<64x64xf32> from #hyc.fill<0.0 : f64> {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>}

// Stage 2: the gradient is flat too, and reduced as it is made.
hyc.param @two : tensor<64x64xf32> from #hyc.fill<0.5 : f64> {dist.stages = array<i64: 0>}
hyc.state @two.grad of @two role "gradient" : tensor<64x64xf32> from #hyc.fill<0.0 : f64>
  {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>, dist.reduction = "micro_batch"}
hyc.state @two.v of @two role "sgd.momentum" : tensor<64x64xf32> from #hyc.fill<0.0 : f64> {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>}

// Stage 3: the parameter too.
// CHECK: hyc.param @three : tensor<2048xf32>
hyc.param @three : tensor<64x64xf32> from #hyc.fill<0.5 : f64> {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>}
hyc.state @three.grad of @three role "gradient" : tensor<64x64xf32> from #hyc.fill<0.0 : f64>
  {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>, dist.reduction = "micro_batch"}
hyc.state @three.v of @three role "sgd.momentum" : tensor<64x64xf32> from #hyc.fill<0.0 : f64> {dist.flat = #dist.axes<{dp}>, dist.stages = array<i64: 0>}
hyc.state @norm role "grad_norm" : tensor<f32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>}

// The whole parameter is there for one use at a time: a transposed copy in forward, the transposed product in backward.
// CHECK-LABEL: hyc.func @forward.0
// CHECK: %[[S:.*]] = hyc.read @three {{.*}}: tensor<2048xf32>
// CHECK: %[[P:.*]] = dist.all_gather_start %[[S]] flat <{dp}> over <{dp}> {cause = "product", why = "#dist.sharding<[{}, {}] flat {dp}>"} : tensor<2048xf32> -> <tensor<64x64xf32>>
// CHECK: %[[W:.*]] = dist.wait %[[P]]
// CHECK: hyc.einsum "bk,nk->bn" %{{.*}}, %[[W]]
// CHECK-NOT: hyc.saved
// CHECK-LABEL: hyc.func @backward.0
// CHECK: dist.all_gather_start {{.*}} flat <{dp}> over <{dp}> {cause = "product.grad"
// CHECK: hyc.einsum "bk,kn->bn"
// CHECK: %[[G:.*]] = dist.reduce_scatter_start %{{.*}} flat <{dp}> over <{dp}> {cause = "gradient", {{.*}}} : tensor<64x64xf32> -> <tensor<2048xf32>>
// CHECK: hyc.accumulate %{{.*}} into @one.grad {{.*}}: tensor<64x64xf32>
// CHECK: %[[H:.*]] = dist.wait %[[G]]
// CHECK: hyc.accumulate %[[H]] into @three.grad {{.*}}: tensor<2048xf32>

// CHECK-LABEL: hyc.func @reduce.0
// CHECK: %[[R:.*]] = hyc.read @one.grad : tensor<64x64xf32>
// CHECK: %[[X:.*]] = dist.reduce_scatter_start %[[R]] flat <{dp}> over <{dp}>
// CHECK-NOT: start
// CHECK: %[[Y:.*]] = dist.wait %[[X]]
// CHECK: hyc.write %[[Y]] into @one.grad {dist.flat = #dist.axes<{dp}>} : tensor<2048xf32>

// CHECK-LABEL: hyc.func @apply.0
// CHECK: %[[Q:.*]] = hyc.sum_of_squares [@one.grad, @two.grad, @three.grad] {dist.flat = #dist.axes<{dp}>} : tensor<68xi64>
// CHECK: dist.all_reduce_start sum %[[Q]] over <{dp}>
// CHECK: hyc.round_sum %{{.*}} : tensor<68xi64> -> tensor<f64>
// CHECK: hyc.sgd @one, @one.grad velocity @one.v {{.*}}dist.flat = #dist.axes<{dp}>
// CHECK: hyc.sgd @three, @three.grad velocity @three.v {{.*}}dist.flat = #dist.axes<{dp}>
// The own slices of what is stored whole are joined; the flat parameter is not.
// CHECK: %[[A:.*]] = hyc.read @one {dist.flat = #dist.axes<{dp}>} : tensor<2048xf32>
// CHECK: dist.all_gather_start %[[A]] flat <{dp}> over <{dp}>
// CHECK: hyc.read @two {dist.flat
// CHECK-NOT: hyc.read @three
// CHECK: hyc.write %{{.*}} into @one : tensor<64x64xf32>
// CHECK: hyc.write %{{.*}} into @two : tensor<64x64xf32>
hyc.func @microbatch(%x: tensor<8x64xf32> {hyc.input = "x", dist.sharding = #dist.sharding<[{dp}, {}]>}) {
  %w = hyc.read @three {dist.stage = 0} : tensor<64x64xf32>
  %y = hyc.einsum "bk,nk->bn" %x, %w {id = "product", dist.stage = 0} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %z = hyc.einsum "bk,kn->bn" %y, %w {id = "product.grad", hyc.backward, dist.stage = 0} : (tensor<8x64xf32>, tensor<64x64xf32>) -> tensor<8x64xf32>
  %g = hyc.einsum "bk,bn->kn" %z, %x {id = "gradient", hyc.backward, dist.stage = 0} : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<64x64xf32>
  hyc.accumulate %g into @one.grad {hyc.backward, dist.stage = 0} : tensor<64x64xf32>
  hyc.accumulate %g into @two.grad {hyc.backward, dist.stage = 0} : tensor<64x64xf32>
  hyc.accumulate %g into @three.grad {hyc.backward, dist.stage = 0} : tensor<64x64xf32>
  hyc.return
}
hyc.func @apply(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  %c = hyc.constant dense<1> : tensor<i64>
  %q = hyc.sum_of_squares [@one.grad, @two.grad, @three.grad] : tensor<f64>
  %scale, %n = hyc.gradient_scale %q, %c : (tensor<f64>, tensor<i64>) -> (tensor<f32>, tensor<f32>)
  hyc.write %n into @norm : tensor<f32>
  hyc.sgd @one, @one.grad velocity @one.v lr %lr scale %scale {momentum = 0.9 : f64, weight_decay = 0.0 : f64} : tensor<f32>, tensor<f32>
  hyc.sgd @two, @two.grad velocity @two.v lr %lr scale %scale {momentum = 0.9 : f64, weight_decay = 0.0 : f64} : tensor<f32>, tensor<f32>
  hyc.sgd @three, @three.grad velocity @three.v lr %lr scale %scale {momentum = 0.9 : f64, weight_decay = 0.0 : f64} : tensor<f32>, tensor<f32>
  hyc.return
}
