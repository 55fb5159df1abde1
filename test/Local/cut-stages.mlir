// A value that backward needs on its own stage is saved; what the next stage needs crosses as a channel; a value that skips
// a stage hops through it; reads and broadcasts are repeated where they are used, and what was broadcast is saved.
// RUN: hyc-opt %s --hyc-cut-stages | FileCheck %s

dist.mesh @mesh axes ["dp", "tp"] sizes [1, 1] stages 3 batch <{dp}> tensor <{tp}>
hyc.param @w : tensor<8x8xf32> from #hyc.fill<0.0 : f64>
hyc.state @w.grad of @w role "gradient" : tensor<8x8xf32> from #hyc.fill<0.0 : f64>

hyc.func @microbatch(%x: tensor<2x8xf32> {hyc.input = "x", hyc.source = "token"}) {
  %w = hyc.read @w : tensor<8x8xf32>
  // CHECK-LABEL: hyc.func @forward.0
  // CHECK-SAME: {hyc.input = "x", hyc.source = "token"}
  // CHECK-SAME: {dist.channel = "a"}
  // CHECK: hyc.read @w
  // CHECK: hyc.einsum
  %a = hyc.einsum "bk,kn->bn" %x, %w {id = "a", dist.stage = 0} : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  // CHECK-LABEL: hyc.func @forward.1
  // CHECK-SAME: %[[A:.*]]: tensor<2x8xf32> {dist.channel = "a"}
  // CHECK-SAME: -> (tensor<2x8xf32> {dist.channel = "a"}, tensor<2x8xf32> {dist.channel = "b"}, tensor<2x8xf32> {hyc.saved = "a"})
  %b = hyc.gelu %a {id = "b", dist.stage = 1} : tensor<2x8xf32>
  // CHECK-LABEL: hyc.func @forward.2
  // CHECK-SAME: {dist.channel = "b"}
  %c = hyc.add %a, %b {id = "c", dist.stage = 2} : tensor<2x8xf32>
  // CHECK-LABEL: hyc.func @backward.0
  // CHECK-SAME: {dist.channel = "dc"}
  // CHECK-SAME: {hyc.input = "x"
  // CHECK-LABEL: hyc.func @backward.1
  // CHECK: hyc.gelu_grad
  // CHECK-LABEL: hyc.func @backward.2
  %dc = hyc.neg %c {id = "dc", hyc.backward, dist.stage = 2} : tensor<2x8xf32>
  %db = hyc.gelu_grad %dc, %a {id = "db", hyc.backward, dist.stage = 1} : tensor<2x8xf32>
  %da = hyc.add %dc, %db {id = "da", hyc.backward, dist.stage = 0} : tensor<2x8xf32>
  %dw = hyc.einsum "bk,bn->kn" %x, %da {id = "dw", hyc.backward, dist.stage = 0} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  hyc.accumulate %dw into @w.grad {hyc.backward, dist.stage = 0} : tensor<8x8xf32>
  hyc.return
}
