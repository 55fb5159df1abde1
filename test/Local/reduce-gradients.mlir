// The end of a step: a gradient that is partial over dp is summed over dp and stays whole, since nothing is flat here
// (flat-states.mlir has what ZeRO makes of it). What no axis left open crosses nowhere.
// RUN: hyc-opt %s --hyc-seed-shardings --hyc-propagate-shardings --hyc-partition --hyc-cut-stages --hyc-reduce-gradients | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>
dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
  #dist.do<reduce>, #dist.do<apply>]
hyc.param @w : tensor<64x32xf32> from #hyc.fill<0.5 : f64> {dist.stages = array<i64: 0>}
hyc.state @w.grad of @w role "gradient" : tensor<64x32xf32> from #hyc.fill<0.0 : f64> {dist.stages = array<i64: 0>, dist.reduction = "step"}
hyc.param @still : tensor<8xf32> from #hyc.fill<0.5 : f64> {dist.stages = array<i64: 0>}

// CHECK-LABEL: hyc.func @reduce.0
// CHECK: %[[G:.*]] = hyc.read @w.grad : tensor<64x32xf32>
// CHECK: %[[P:.*]] = dist.all_reduce_start sum %[[G]] over <{dp}> {cause = "w.grad"
// CHECK: %[[R:.*]] = dist.wait %[[P]]
// CHECK: hyc.write %[[R]] into @w.grad
// CHECK-NOT: @still
// CHECK: hyc.return
hyc.func @microbatch(%x: tensor<8x64xf32> {hyc.input = "x"}, %dy: tensor<8x32xf32> {hyc.input = "dy"}) {
  %g = hyc.einsum "bk,bn->kn" %x, %dy {id = "gradient", hyc.backward, dist.stage = 0} : (tensor<8x64xf32>, tensor<8x32xf32>) -> tensor<64x32xf32>
  hyc.accumulate %g into @w.grad {hyc.backward, dist.stage = 0} : tensor<64x32xf32>
  hyc.return
}
