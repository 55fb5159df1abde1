// RUN: hyc-opt %s --hyc-lower-to-rank --hyc-place-buffers --hyc-coalesce-reductions | FileCheck %s

// Gradients over dp become one call; the tied one, over stages too, is placed apart and stays alone.
dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @a : tensor<4x5xf32> from #hyc.fill<0.5 : f64>
hyc.param @tied : tensor<16xf32> from #hyc.fill<0.5 : f64>
hyc.param @b : tensor<32xf32> from #hyc.fill<0.5 : f64>
hyc.state @a.grad of @a role "gradient" : tensor<4x5xf32> from #hyc.fill<0.0 : f64>
hyc.state @tied.grad of @tied role "gradient" : tensor<16xf32> from #hyc.fill<0.0 : f64>
hyc.state @b.grad of @b role "gradient" : tensor<32xf32> from #hyc.fill<0.0 : f64>

// CHECK-DAG: rank.arena @gradients shared bytes 320
// CHECK-DAG: rank.state @a.grad "gradient" of "a" in @gradients at 0
// CHECK-DAG: rank.state @b.grad "gradient" of "b" in @gradients at 128
// CHECK-DAG: rank.state @tied.grad "gradient" of "tied" in @gradients at 256
// CHECK-DAG: rank.collective @a.grad.all_reduce {{[0-9]+}} "all_reduce" over <{dp}> cause "a.grad to b.grad"
// CHECK-NOT: rank.collective @b.grad
// CHECK: rank.func @reduce()
// 20 elements, 48 bytes for alignment, 32 elements.
// CHECK: %[[BOTH:.*]] = rank.at @gradients 0 : <64xf32>
// CHECK: rank.start "all_reduce" "sum" %{{.*}}, %[[BOTH]] count 64
// CHECK: rank.start "all_reduce" "sum" %{{.*}}, %{{.*}} count 16
// CHECK-NOT: rank.start

hyc.func @forward.0() {
  hyc.return
}
hyc.func @backward.0() {
  hyc.return
}
hyc.func @reduce.0() {
  %a = hyc.read @a.grad : tensor<4x5xf32>
  %pa = dist.all_reduce_start sum %a over #dist.group<{dp}> {cause = "a.grad"} : tensor<4x5xf32> -> !dist.pending<tensor<4x5xf32>>
  %ra = dist.wait %pa : !dist.pending<tensor<4x5xf32>> -> tensor<4x5xf32>
  hyc.write %ra into @a.grad : tensor<4x5xf32>
  %t = hyc.read @tied.grad : tensor<16xf32>
  %pt = dist.all_reduce_start sum %t over #dist.group<{dp} stages [0, 1]> {cause = "tied.grad"} : tensor<16xf32> -> !dist.pending<tensor<16xf32>>
  %rt = dist.wait %pt : !dist.pending<tensor<16xf32>> -> tensor<16xf32>
  hyc.write %rt into @tied.grad : tensor<16xf32>
  %b = hyc.read @b.grad : tensor<32xf32>
  %pb = dist.all_reduce_start sum %b over #dist.group<{dp}> {cause = "b.grad"} : tensor<32xf32> -> !dist.pending<tensor<32xf32>>
  %rb = dist.wait %pb : !dist.pending<tensor<32xf32>> -> tensor<32xf32>
  hyc.write %rb into @b.grad : tensor<32xf32>
  hyc.return
}
hyc.func @apply.0(%lr: tensor<f32> {hyc.scalar = "lr"}) {
  hyc.return
}
