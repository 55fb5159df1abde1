// What forward writes is not read again in backward, where it holds something else: the old value is saved.
// RUN: hyc-opt %s --hyc-cut-stages | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<8xf32> from #hyc.fill<0.0 : f64>
hyc.param @mean : tensor<8xf32> from #hyc.fill<0.0 : f64> frozen
hyc.state @w.grad of @w role "gradient" : tensor<8xf32> from #hyc.fill<0.0 : f64>

hyc.func @microbatch(%x: tensor<8xf32> {hyc.input = "x", hyc.source = "sample"}) {
  // CHECK-LABEL: hyc.func @forward.0
  // CHECK-SAME: {hyc.saved = "old"}
  // CHECK: %[[OLD:.*]] = hyc.read @mean
  // CHECK: hyc.read @w
  // CHECK: hyc.write {{.*}} into @mean
  // CHECK: hyc.return %[[OLD]]
  %w = hyc.read @w : tensor<8xf32>
  %old = hyc.read @mean {id = "old", dist.stage = 0} : tensor<8xf32>
  %y = hyc.mul %w, %old {id = "y", dist.stage = 0} : tensor<8xf32>
  %next = hyc.add %old, %x {id = "next", dist.stage = 0} : tensor<8xf32>
  hyc.write %next into @mean {id = "mean.write", dist.stage = 0} : tensor<8xf32>
  // CHECK-LABEL: hyc.func @backward.0
  // CHECK-SAME: {hyc.saved = "old"}
  // CHECK-NOT: hyc.read @mean
  // CHECK: hyc.read @w
  // CHECK-NOT: hyc.read @mean
  %dw = hyc.mul %w, %old {id = "y.grad", hyc.backward, dist.stage = 0} : tensor<8xf32>
  hyc.accumulate %dw into @w.grad {hyc.backward, dist.stage = 0} : tensor<8xf32>
  hyc.return
}
